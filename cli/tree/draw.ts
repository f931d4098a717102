/** Owns how a supervision tree looks in text: one line an actor, its children below it. */
import type { TreeRow } from "../../protocol/methods/system.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { durationText, printable } from "../printable.ts";

export type Trees = ResultOf<"supervision.tree">;

const COLOURS = { red: 31, green: 32, yellow: 33, dim: 2 } as const;
type Colour = keyof typeof COLOURS;
type Paint = (colour: Colour, text: string) => string;

const STATE_COLOUR: Readonly<Record<TreeRow["state"], Colour>> = {
  starting: "yellow",
  running: "green",
  backing_off: "red",
  stopping: "yellow",
  ended: "dim",
};

/** A mailbox this full, or a message that waits this long, is worth a look. */
const DEEP_MAILBOX = 100;
const OLD_MESSAGE_MS = 1_000;

export function drawTrees(trees: Trees, coloured: boolean): string {
  const paint: Paint = coloured
    ? (colour, text) => `\u001b[${COLOURS[colour]}m${text}\u001b[0m`
    : (_colour, text) => text;
  return trees.trees
    .map(({ source, name, tree, error }) => {
      const who = source === "controller" ? "controller" : `node ${printable(name)}`;
      const title = `${who} ${paint("dim", printable(source))}\n`;
      if (tree === null)
        return `${title}  ${paint("red", `no answer (${printable(error ?? "unknown")})`)}\n`;
      return title + drawRow(tree, "", "", trees.generatedAtMs, paint);
    })
    .join("\n");
}

/** As deep as the tree, which the client's validation has walked before. */
function drawRow(
  row: TreeRow,
  branch: string,
  indent: string,
  nowMs: number,
  paint: Paint,
): string {
  const last = row.children.length - 1;
  const children = row.children.map((child, index) =>
    drawRow(
      child,
      `${indent}${index === last ? "└─ " : "├─ "}`,
      `${indent}${index === last ? "   " : "│  "}`,
      nowMs,
      paint,
    ),
  );
  return `${branch}${describe(row, nowMs, paint)}\n${children.join("")}`;
}

function describe(row: TreeRow, nowMs: number, paint: Paint): string {
  const id = row.path.slice(row.path.lastIndexOf("/") + 1) || row.path;
  const parts = [
    printable(id),
    ...(row.kind === id ? [] : [paint("dim", printable(row.kind))]),
    paint(STATE_COLOUR[row.state], row.state),
    paint("dim", row.restart),
  ];
  if (row.startedAtMs !== null) parts.push(`up ${durationText(nowMs - row.startedAtMs)}`);
  if (row.restartsLeft !== null) {
    const text = `restarts ${row.restartsInWindow} (${row.restartsLeft} left)`;
    parts.push(row.restartsInWindow > 0 ? paint("yellow", text) : text);
  }
  const mailbox = `mailbox ${row.mailboxDepth}`;
  parts.push(row.mailboxDepth >= DEEP_MAILBOX ? paint("red", mailbox) : mailbox);
  if (row.oldestMessageAgeMs !== null) {
    const text = `oldest ${durationText(row.oldestMessageAgeMs)}`;
    parts.push(row.oldestMessageAgeMs >= OLD_MESSAGE_MS ? paint("red", text) : text);
  }
  if (row.lastCrash !== null) parts.push(paint("red", `last crash ${printable(row.lastCrash)}`));
  return parts.join("  ");
}
