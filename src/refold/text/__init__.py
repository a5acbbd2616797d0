"""String functions: cutting, sentences, words, dates, frames, redaction, lenient JSON."""
