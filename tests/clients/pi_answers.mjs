// What pi itself makes of session files: its path, context, estimate, and what it prepares for a compaction and for a
// branch that is left. Reads one case a line (JSON), writes one answer a line. Needs the folder of pi's package.
import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const core = join(process.argv[2], "dist", "core");
const load = (...path) => import(pathToFileURL(join(core, ...path)).href);
const compaction = await load("compaction", "index.js");
const sessions = await load("session-manager.js");

// Every entry of a case has a second of its own: that names it, also where pi gives it an id or wraps it anew.
const START = Date.parse("2026-01-01T00:00:00.000Z");
const number = (milliseconds) => Math.round((milliseconds - START) / 1000);
const ofEntry = (entry) => (entry ? number(Date.parse(entry.timestamp)) : null);
const ofMessage = (message) => number(message.timestamp);

function said(message) {
	if (message.role === "bashExecution") return `${message.command}\n${message.output}`;
	if (message.summary !== undefined) return message.summary;
	if (typeof message.content === "string") return message.content;
	return message.content
		.map((part) => part.text ?? part.thinking ?? part.data ?? `${part.name} ${JSON.stringify(part.arguments)}`)
		.join("\n");
}

function answer(given) {
	const manager = sessions.SessionManager.open(given.file);
	const entries = manager.getEntries();
	const byNumber = new Map(entries.map((entry) => [ofEntry(entry), entry]));
	const leaf = given.leaf === null ? manager.getLeafId() : byNumber.get(given.leaf).id;
	const target = byNumber.get(given.target).id;
	const path = manager.getBranch(leaf);
	const context = sessions.buildSessionContext(entries, leaf);
	const settings = { enabled: true, reserveTokens: given.reserve, keepRecentTokens: given.keep };
	const prepared = compaction.prepareCompaction(path, settings);
	const left = compaction.collectEntriesForBranchSummary(manager, leaf, target);
	const branch = compaction.prepareBranchEntries(left.entries, given.budget);
	const ancestor = left.commonAncestorId && manager.getEntry(left.commonAncestorId);
	const projection = sessions.buildSessionProjection(entries, leaf);
	const tokens = compaction.estimateProjectedContextTokens(projection, path).tokens;
	return {
		path: path.map(ofEntry),
		context: context.messages.map((message) => ({ role: message.role, entry: ofMessage(message), said: said(message) })),
		model: context.model,
		thinking: context.thinkingLevel,
		labels: entries.map((entry) => manager.getLabel(entry.id) ?? null),
		tokens,
		due: compaction.shouldCompact(tokens, given.window, settings),
		prepared: prepared && {
			first: ofEntry(manager.getEntry(prepared.firstKeptEntryId)),
			fold: prepared.messagesToSummarize.map(ofMessage),
			prefix: prepared.turnPrefixMessages.map(ofMessage),
			split: prepared.isSplitTurn,
			before: prepared.tokensBefore,
			previous: prepared.previousSummary ?? null,
			files: compaction.computeFileLists(prepared.fileOps),
		},
		branch: {
			ancestor: ofEntry(ancestor),
			entries: left.entries.map(ofEntry),
			messages: branch.messages.map(ofMessage),
			tokens: branch.totalTokens,
			files: compaction.computeFileLists(branch.fileOps),
		},
	};
}

for await (const line of createInterface({ input: process.stdin })) {
	const given = JSON.parse(line);
	process.stdout.write(`${JSON.stringify(answer(given))}\n`);
}
