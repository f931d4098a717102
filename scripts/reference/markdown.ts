/** Owns the Markdown that the pages are made of. */

export const NOTICE =
  "<!-- Made from the declarations in protocol/ and cli/ by `npm run reference`; do not edit. -->";

/** Whole pages and sections: parts with an empty line between them, and a line end at the end. */
export function page(...parts: readonly string[]): string {
  return `${parts.join("\n\n")}\n`;
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(" | ")} |`;
  return [line(head), `|${head.map(() => "---|").join("")}`, ...rows.map(line)].join("\n");
}

function cell(text: string): string {
  const outsideCode = text
    .split("`")
    .map((part, index) => (index % 2 === 0 ? part.replaceAll("<", "&lt;") : part));
  return outsideCode.join("`").replaceAll("|", "\\|").replaceAll("\n", " ");
}

export function code(language: string, text: string): string {
  return `\`\`\`${language}\n${text}\n\`\`\``;
}

/** Where a heading of this text is found (the anchors of GitHub). */
export function anchor(heading: string): string {
  return `#${heading
    .toLowerCase()
    .replace(/[^a-z0-9_ -]/g, "")
    .replaceAll(" ", "-")}`;
}

const WIDTH = 100;

/** JSON for reading: what fits in a line stands in one. */
export function json(value: unknown, indent = ""): string {
  const flat = JSON.stringify(value).length;
  const spaced = spacedOut(value);
  if (typeof value !== "object" || value === null || flat + indent.length <= WIDTH - 4)
    return spaced;
  const inner = `${indent}  `;
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const members = Array.isArray(value)
    ? value.map((entry: unknown) => `${inner}${json(entry, inner)}`)
    : Object.entries(value).map(
        ([name, member]: [string, unknown]) =>
          `${inner}${JSON.stringify(name)}: ${json(member, inner)}`,
      );
  return `${open}\n${members.join(",\n")}\n${indent}${close}`;
}

function spacedOut(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spacedOut).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([name, member]: [string, unknown]) => `${JSON.stringify(name)}: ${spacedOut(member)}`,
  );
  return members.length === 0 ? "{}" : `{ ${members.join(", ")} }`;
}
