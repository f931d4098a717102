import { execFileSync, spawnSync } from "node:child_process";
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { expect } from "chai";
import { errnoOf } from "../../../host/system-error.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { type FilesRoom, filesRoom, waysToOpen } from "../../support/files-room.ts";
import { refusalOf } from "../../support/refusal.ts";

/** What is referred to, from the top. Nothing is at those that say so. */
const TARGETS = [
  "home",
  "home/file",
  "home/folder",
  "home/folder/file",
  "home/pipe",
  "home/circle",
  "home/missing",
  "home/missing/below",
  "home/.lemon",
  "home/.lemon/key",
  "home/.lemon/missing",
  "second",
  "second/file",
  "second/missing",
  "outside",
  "outside/secret",
  "outside/folder",
  "outside/missing",
  "outside/missing/below",
  "home-like/file",
  "",
];

type Link = (target: string, name: string, top: string) => string;

function linked(at: string, to: string): string {
  symlinkSync(to, at);
  return at;
}

/** How the reference reaches it: each makes its links and answers the path that leads through them. */
const LINKS: Readonly<Record<string, Link>> = {
  "no link": (target) => target,
  "a relative link": (target, name, top) =>
    linked(join(top, "home", name), relative(join(top, "home"), target) || "."),
  "an absolute link": (target, name, top) => linked(join(top, "home", name), target),
  "a link to a link": (target, name, top) => {
    linked(join(top, "home", `${name}-2`), target);
    return linked(join(top, "home", name), `${name}-2`);
  },
  "a link in another root": (target, name, top) => {
    linked(join(top, "second", name), relative(join(top, "second"), target) || ".");
    return linked(join(top, "home", name), `../second/${name}`);
  },
  "a link below a folder": (target, name, top) =>
    linked(join(top, "home/folder", name), relative(join(top, "home/folder"), target) || "."),
  "a link outside": (target, name, top) => {
    linked(join(top, "elsewhere", name), target);
    return linked(join(top, "home", name), join(top, "elsewhere", name));
  },
  "a parent that is a link": (target, name, top) =>
    join(linked(join(top, "home", name), dirname(target)), basename(target)),
  "a link that says directory": (target, name, top) =>
    linked(join(top, "home", name), `${target}/`),
  "a link with idle parts": (target, name, top) =>
    linked(join(top, "home", name), `.//.././/${relative(top, target) || "."}`),
};

/** How it is written. */
const REFERENCES: Readonly<Record<string, (path: string, top: string) => string>> = {
  absolute: (path) => path,
  "from the default directory": (path, top) =>
    path.startsWith(`${top}/home/`) ? relative(`${top}/home`, path) : path,
  "with idle parts": (path) => path.replaceAll("/", "//./"),
  "with a slash at the end": (path) => `${path}/`,
  "with a dot at the end": (path) => `${path}/.`,
  "of something below": (path) => `${path}/below`,
  "through a link outside": (path, top) => path.replace(`${top}/home`, `${top}/alias`),
};

interface Truth {
  /** What the plain path leads to; or would, if it were there. */
  readonly path: string;
  readonly errno: string | null;
}

/** What realpath(3) and realpath(1) say. */
function truthsOf(paths: readonly string[]): Truth[] {
  const found = paths.map((path) => {
    try {
      return { path: realpathSync.native(path), errno: null };
    } catch (failure) {
      return { path, errno: errnoOf(failure) };
    }
  });
  const missing = found.filter(({ errno }) => errno === "ENOENT" || errno === "ENOTDIR");
  const { stdout } = spawnSync("realpath", ["-mz", "--", ...missing.map(({ path }) => path)], {
    encoding: "utf8",
  });
  const wouldBe = stdout.split("\0");
  expect(wouldBe).to.have.length(missing.length + 1);
  return found.map((truth) => {
    const at = missing.indexOf(truth);
    return at < 0 ? truth : { ...truth, path: wouldBe[at] ?? "" };
  });
}

for (const { name, openAt } of waysToOpen()) {
  describe(`a path, walked with ${name}`, () => {
    let room: FilesRoom;
    let outside: string;

    beforeEach(() => {
      room = filesRoom(openAt);
      const { top } = room;
      for (const folder of ["home/folder", "outside/folder", "elsewhere", "home-like"])
        mkdirSync(join(top, folder), { recursive: true });
      for (const file of ["home/file", "home/folder/file", "second/file", "home-like/file"])
        writeFileSync(join(top, file), file);
      execFileSync("mkfifo", [join(top, "home/pipe")]);
      symlinkSync("circle", join(top, "home/circle"));
      symlinkSync("home", join(top, "alias"));
      outside = snapshot();
    });
    afterEach(() => {
      expect(snapshot()).to.equal(outside);
      room[Symbol.dispose]();
    });

    const snapshot = () =>
      ["outside", "home-like", "home/.lemon"]
        .flatMap((folder) => [folder, ...readdirSync(join(room.top, folder))])
        .join() + readFileSync(join(room.top, "outside/secret"), "utf8");

    const isInside = (path: string) =>
      ["home", "second"].some((root) => `${path}/`.startsWith(`${room.top}/${root}/`)) &&
      !`${path}/`.startsWith(`${room.top}/home/.lemon/`);

    /** What must come of looking at it: its path and kind, or the code of the refusal. */
    function expected({ path, errno }: Truth): string {
      if (errno === "ELOOP" || !isInside(path)) return "path_not_allowed";
      if (errno !== null) return errno === "ENOENT" ? "not_found" : "not_directory";
      const stats = statSync(path);
      return `${path} ${stats.isDirectory() ? "directory" : stats.isFile() ? "regular" : "other"}`;
    }

    function observed(act: () => string): string {
      try {
        return act();
      } catch (failure) {
        if (failure instanceof LemonError) return failure.code;
        throw failure;
      }
    }

    for (const [kind, link] of Object.entries(LINKS)) {
      it(`through ${kind} leads where the plain path leads, or nowhere`, () => {
        const targets = TARGETS.map((target, n) =>
          link(join(room.top, target), `link-${n}`, room.top),
        );
        const cases = targets.flatMap((path) =>
          Object.values(REFERENCES).map((reference) => reference(path, room.top)),
        );
        const plain = cases.map((path) => (path.startsWith("/") ? path : `${room.home}/${path}`));
        const truths = truthsOf(plain);
        const counted = new Map<string, number>();
        for (const [n, path] of cases.entries()) {
          const truth = truths[n];
          if (truth === undefined) throw new RangeError("no truth");
          const wanted = expected(truth);
          const stat = observed(() => {
            const { path: canonical, type } = room.files.stat({ path });
            const isPlain = type === "directory" || type === "regular";
            return `${canonical} ${isPlain ? type : "other"}`;
          });
          expect(stat, `stat ${path}`).to.equal(wanted);
          const list = observed(
            () => `${room.files.list({ path, showHidden: true }).path} directory`,
          );
          expect(list, `list ${path}`).to.equal(
            / (regular|other)$/.test(wanted) ? "not_directory" : wanted,
          );
          const read = observed(() => {
            const { path: canonical, bytes } = room.files.read({ path, offset: 0, length: 100 });
            expect(Buffer.from(bytes).toString()).to.equal(readFileSync(canonical, "utf8"));
            return `${canonical} regular`;
          });
          const readable = wanted
            .replace(/.* directory$/, "is_directory")
            .replace(/.* other$/, "not_regular");
          expect(read, `read ${path}`).to.equal(readable);
          const ending = wanted.split(" ").at(-1) ?? "";
          counted.set(ending, (counted.get(ending) ?? 0) + 1);
        }
        // The table holds refusals and admissions of every sort.
        expect([...counted.keys()]).to.include.members([
          "path_not_allowed",
          "not_found",
          "directory",
        ]);
      });

      it(`through ${kind} creates where the plain path would, or nowhere`, () => {
        const missing = TARGETS.filter((target) => /missing$/.test(target));
        for (const [n, target] of missing.entries()) {
          const path = link(join(room.top, target), `link-${n}`, room.top);
          const saysDirectory = kind === "a link that says directory";
          const [truth] = truthsOf([path]);
          if (truth === undefined) throw new RangeError("no truth");
          const wanted = isInside(truth.path) ? truth.path : "path_not_allowed";
          const write = observed(
            () =>
              room.files.write({
                path,
                bytes: Buffer.from("new"),
                offset: 0,
                truncate: true,
                mkdirs: false,
                expectedModifiedAtMs: 0,
              }).path,
          );
          const isRefused = saysDirectory && isInside(truth.path);
          expect(write, `write ${path}`).to.equal(isRefused ? "is_directory" : wanted);
          rmSync(truth.path, { force: true });
          const mkdir = observed(() => room.files.mkdir({ path }).path);
          expect(mkdir, `mkdir ${path}`).to.equal(wanted);
          if (isInside(truth.path)) expect(statSync(truth.path).isDirectory()).to.equal(true);
          if (isInside(truth.path)) rmSync(truth.path, { recursive: true });
        }
      });
    }

    it("that leaves a missing folder by .. again is not found, wherever it would lead", async () => {
      for (const [n, target] of [
        "missing/../file",
        "missing/../../outside/secret",
        "pipe/../file",
      ].entries()) {
        symlinkSync(target, join(room.home, `up-${n}`));
        const { code } = await refusalOf(() => room.files.stat({ path: `up-${n}` }));
        expect(code).to.equal(target.startsWith("pipe") ? "not_directory" : "not_found");
      }
    });

    it("whose links are no UTF-8 is not allowed: nobody could name where it leads", async () => {
      writeFileSync(Buffer.concat([Buffer.from(`${room.home}/`), Buffer.of(0xff)]), "odd");
      writeFileSync(join(room.home, "\ufffd"), "other");
      symlinkSync(Buffer.of(0xff), join(room.home, "odd"));
      for (const path of ["odd", "odd/x"]) {
        const { code } = await refusalOf(() => room.files.stat({ path }));
        expect(code).to.equal("path_not_allowed");
      }
      expect(room.files.stat({ path: "\ufffd" }).size).to.equal(5);
    });

    it("may be 4,096 bytes long, and lead to what can be named again, and no further", async () => {
      // Each component 200 bytes; made step by step, since no call takes so long a path.
      const step = "n".repeat(200);
      const deep = `/${step}`.repeat(18);
      room.files.mkdir({ path: room.home + deep });
      const fill = 4_096 - (room.home + deep).length - 1;
      const first = "f".repeat(Math.min(255, fill));
      const rest = fill - first.length;
      const longest =
        rest === 0
          ? `${room.home}${deep}/${first}`
          : `${room.home}${deep}/${first}/${"g".repeat(rest - 1)}`;
      expect(longest).to.have.length(4_096);
      const write = (path: string) =>
        room.files.write({
          path,
          bytes: Buffer.from("x"),
          offset: 0,
          truncate: true,
          mkdirs: true,
          expectedModifiedAtMs: 0,
        });
      expect(write(longest).path).to.equal(longest);
      expect(room.files.stat({ path: longest }).size).to.equal(1);
      expect((await refusalOf(() => room.files.stat({ path: `${longest}n` }))).code).to.equal(
        "invalid_path",
      );
      // Shorter as it is written, and longer as it is.
      const relativePath = longest.slice(room.home.length + 1);
      expect(room.files.stat({ path: relativePath }).path).to.equal(longest);
      expect((await refusalOf(() => write(`${relativePath}n`))).code).to.equal("invalid_path");
    });

    it("of bad text is refused before anything is asked", async () => {
      for (const path of [
        "",
        "a\0b",
        "\0",
        "\ud800",
        "a/\udc00b",
        "..",
        "folder/..",
        "../home",
        "x".repeat(4_097),
      ]) {
        for (const act of [
          () => room.files.stat({ path }),
          () => room.files.list({ path, showHidden: true }),
          () => room.files.read({ path, offset: 0, length: 1 }),
          () => room.files.mkdir({ path }),
        ])
          expect((await refusalOf(act)).code, JSON.stringify(path)).to.equal("invalid_path");
      }
    });

    it("still leads into the directories that were there at the start", () => {
      renameSync(join(room.top, "second"), join(room.top, "moved"));
      symlinkSync("outside", join(room.top, "second"));
      expect(room.files.stat({ path: join(room.top, "second/file") }).size).to.equal(11);
      rmSync(join(room.top, "second"));
      renameSync(join(room.top, "moved"), join(room.top, "second"));
    });
  });
}
