/** A folder of its own for each test, gone afterwards. */
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Registers the hooks of the surrounding `describe`; the function it gives names the test's folder. */
export function useTemporaryFolder(): () => string {
  let folder = "";
  beforeEach(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), "lemon-scripts-")));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return () => folder;
}
