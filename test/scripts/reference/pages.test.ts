import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { referencePages } from "../../../scripts/reference/pages.ts";

const folder = join(import.meta.dirname, "../../../docs/reference");

describe("docs/reference", () => {
  let pages: ReadonlyMap<string, string>;

  before(async () => {
    pages = await referencePages();
  });

  it("holds the generated pages and nothing else", () => {
    expect(readdirSync(folder).sort()).to.deep.equal([...pages.keys()].sort());
  });

  it("says what the declarations say today", () => {
    const stale = [...pages].flatMap(([name, text]) => {
      const difference = firstDifference(text, readFileSync(join(folder, name), "utf8"));
      return difference === null ? [] : [`${name}, ${difference}`];
    });
    expect(stale, "stale; run: npm run reference").to.deep.equal([]);
  });

  it("links only to headings and files that are there", () => {
    const broken = [...pages].flatMap(([name, text]) =>
      [...text.matchAll(/\]\(([^)#]*)(#[^)]*)?\)/g)].flatMap(([link, file = "", heading]) => {
        const target = file === "" ? text : (pages.get(file) ?? contentOf(join(folder, file)));
        const known = target !== null && (heading === undefined || headings(target).has(heading));
        return known ? [] : [`${name}: ${link}`];
      }),
    );
    expect(broken).to.deep.equal([]);
  });
});

function firstDifference(expected: string, found: string): string | null {
  if (expected === found) return null;
  const lines = expected.split("\n");
  const foundLines = found.split("\n");
  const at = lines.findIndex((line, index) => line !== foundLines[index]);
  return `line ${at + 1}: ${foundLines[at] ?? "(end)"} should be ${lines[at] ?? "(end)"}`;
}

function contentOf(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}

/** The anchors that GitHub gives the headings of a page. */
function headings(text: string): ReadonlySet<string> {
  return new Set(
    [...text.matchAll(/^#+ (.+)$/gm)].map(
      ([, title = ""]) =>
        `#${title
          .toLowerCase()
          .replace(/[^\w -]/g, "")
          .replaceAll(" ", "-")}`,
    ),
  );
}
