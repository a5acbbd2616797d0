"""On strings alone: cutting, sentences, words, dates, frames, redaction, JSON that others refuse."""
