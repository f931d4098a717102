import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { expect } from "chai";
import { packageRoot } from "../../scripts/cache-folder.mjs";
import { writeProgram } from "./fake-nats-server.ts";
import { type End, type RunOptions, run, start } from "./processes.ts";
import { useTemporaryFolder } from "./temporary-folder.ts";

/** Makes `bin/lemon.mjs` believe that it runs on an older Node.js; its child is not told so. */
const OLD_NODE = `data:text/javascript,Object.defineProperty(process,"version",{value:"v20.1.0"})`;

/**
 * A command in the place of ours. It tells what it was given, or does what its first argument says.
 * The type annotation makes it fail wherever types are not stripped.
 */
const COMMAND = `
const [what, ...rest]: string[] = process.argv.slice(2);
if (what === "exit") process.exit(Number(rest[0]));
else if (what === "die") process.kill(process.pid, String(rest[0]));
else if (what === "cat") process.stdin.pipe(process.stdout);
else if (what === "tell") {
  for (const signal of rest) process.on(signal, () => console.log(signal));
  process.on(rest.at(-1) ?? "", () => process.exit());
  setInterval(() => {}, 1000);
  console.log("listening");
} else {
  console.log(JSON.stringify({ args: process.argv.slice(1), cwd: process.cwd(), pid: process.pid }));
}
`;

const compiled = COMMAND.replace(": string[]", "");

interface Told {
  readonly args: readonly string[];
  readonly cwd: string;
  readonly pid: number;
}
const told = (end: End): Told => JSON.parse(end.stdout);

describe("the launcher", () => {
  const folder = useTemporaryFolder();

  /** A checkout with our launcher and the stand-in command. */
  function checkout(): string {
    const root = join(folder(), "checkout");
    cpSync(join(packageRoot(), "bin"), join(root, "bin"), { recursive: true });
    mkdirSync(join(root, "cli"));
    writeFileSync(join(root, "cli", "main.ts"), COMMAND);
    writeFileSync(
      join(root, "package.json"),
      `{"name":"lemon","type":"module","scripts":{"lemon":"node bin/lemon.mjs"}}`,
    );
    return root;
  }

  /** The same as an installed package: compiled, below node_modules, sources and all. */
  function installed(): string {
    const root = join(folder(), "lib", "node_modules", "lemon");
    cpSync(checkout(), root, { recursive: true });
    mkdirSync(join(root, "dist", "cli"), { recursive: true });
    writeFileSync(join(root, "dist", "cli", "main.js"), compiled);
    return root;
  }

  /** Puts the Node.js of the tests where the optional dependency would put its own. */
  function bringNode(
    root: string,
    { prefix = "node", version = "24.0.0", body = `exec "${process.execPath}" "$@"` } = {},
  ): void {
    const made = join(root, "node_modules", `${prefix}-${process.platform}-${process.arch}`);
    writeProgram(join(made, "bin", "node"), body);
    writeFileSync(join(made, "package.json"), JSON.stringify({ version }));
  }

  const launcher = (root: string): string => join(root, "bin", "lemon.mjs");

  describe("on a Node.js 24", () => {
    const lemon = (root: string, args: readonly string[], options?: RunOptions) =>
      run(process.execPath, [launcher(root), ...args], options);

    it("runs the source of a checkout in its own process, arguments untouched", async () => {
      const root = checkout();
      const started = start(process.execPath, [launcher(root), "a b", "", "--", "-x", "ü"], {
        cwd: folder(),
      });
      const { args, cwd, pid } = told(await started.end);
      expect(args).to.deep.equal([join(root, "cli", "main.ts"), "a b", "", "--", "-x", "ü"]);
      expect([cwd, pid]).to.deep.equal([folder(), started.child.pid]);
    });

    it("runs the compiled command of a package, even when sources lie beside it", async () => {
      const root = installed();
      expect(told(await lemon(root, [])).args).to.deep.equal([
        join(root, "dist", "cli", "main.js"),
      ]);
    });

    it("passes exit codes, signals and stdin through", async () => {
      const root = checkout();
      expect(await lemon(root, ["exit", "123"])).to.include({ code: 123, signal: null });
      expect(await lemon(root, ["die", "SIGTERM"])).to.include({ code: null, signal: "SIGTERM" });
      const cat = start(process.execPath, [launcher(root), "cat"]);
      cat.child.stdin.end("bytes");
      expect(await cat.end).to.include({ code: 0, stdout: "bytes" });
    });

    it("says in one line that the package is not complete", async () => {
      const root = installed();
      cpSync(join(root, "bin"), join(folder(), "node_modules", "lemon", "bin"), {
        recursive: true,
      });
      const end = await lemon(join(folder(), "node_modules", "lemon"), []);
      expect(end).to.include({ code: 1, stdout: "" });
      expect(end.stderr).to.match(
        /^lemon: \S+main\.js is missing; this package is not complete\n$/,
      );
    });
  });

  describe("on an older Node.js", () => {
    const args = (root: string, rest: readonly string[]) => [
      "--import",
      OLD_NODE,
      launcher(root),
      ...rest,
    ];
    const lemon = (root: string, rest: readonly string[], options?: RunOptions) =>
      run(process.execPath, args(root, rest), options);

    for (const prefix of ["node", "node-bin"]) {
      it(`runs the command with the Node.js of the package ${prefix}-*`, async () => {
        const root = checkout();
        bringNode(root, { prefix });
        const end = await lemon(root, ["a b", "--", "-x"], { cwd: folder() });
        expect(told(end)).to.deep.include({
          args: [join(root, "cli", "main.ts"), "a b", "--", "-x"],
          cwd: folder(),
        });
      });
    }

    it("finds that Node.js beside the package too, where npm hoists it to", async () => {
      const root = installed();
      bringNode(join(folder(), "lib"));
      expect(told(await lemon(root, [])).args).to.deep.equal([
        join(root, "dist", "cli", "main.js"),
      ]);
    });

    it("passes exit codes and stdin through, and ends by the signal that ended the command", async () => {
      const root = checkout();
      bringNode(root);
      expect(await lemon(root, ["exit", "123"])).to.include({ code: 123, signal: null });
      for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"]) {
        expect(await lemon(root, ["die", signal])).to.include({ code: null, signal });
      }
      const cat = start(process.execPath, args(root, ["cat"]));
      cat.child.stdin.end("bytes");
      expect(await cat.end).to.include({ code: 0, stdout: "bytes" });
    });

    for (const [signal, last] of [
      ["SIGTERM", "SIGINT"],
      ["SIGINT", "SIGTERM"],
      ["SIGHUP", "SIGTERM"],
    ] as const) {
      it(`passes on a ${signal} that it was sent, once`, async () => {
        const root = checkout();
        bringNode(root);
        const started = start(process.execPath, args(root, ["tell", signal, last]));
        await started.said("listening");
        started.child.kill(signal);
        await started.said(signal);
        started.child.kill(last);
        const end = await started.end;
        expect(end).to.include({ code: 0, stdout: `listening\n${signal}\n${last}\n` });
      });
    }

    if (existsSync("/usr/bin/script") && process.platform === "linux") {
      it("leaves a terminal's Ctrl-C to the terminal, which sends it to the command too", async () => {
        const root = checkout();
        bringNode(root);
        const told = args(root, ["tell", "SIGINT", "SIGTERM"]).map((word) => `'${word}'`);
        const line = `echo "pid $$."; exec '${process.execPath}' ${told.join(" ")}`;
        const terminal = start("/usr/bin/script", ["-qec", line, "/dev/null"]);
        await terminal.said("listening");
        terminal.child.stdin.write("\x03");
        await terminal.said("SIGINT");
        const pid = Number(/pid (\d+)\./.exec(terminal.heard())?.[1]);
        process.kill(pid, "SIGTERM");
        const { code, stdout } = await terminal.end;
        expect(code).to.equal(0);
        expect(stdout.match(/SIG\w+/g)).to.deep.equal(["SIGINT", "SIGTERM"]);
      });
    }

    it("says in one line that no Node.js 24 is there, an older one of another project beside it", async () => {
      const root = installed();
      bringNode(join(folder(), "lib"), { version: "23.9.9" });
      expect(await lemon(root, ["version"])).to.deep.equal({
        code: 1,
        signal: null,
        stdout: "",
        stderr: "lemon: Node.js 24 or newer is needed, this is v20.1.0\n",
      });
    });

    it("says in one line that the packaged Node.js does not run", async () => {
      const root = checkout();
      bringNode(root);
      const [modules] = readdirSync(join(root, "node_modules"));
      const node = join(root, "node_modules", String(modules), "bin", "node");
      writeFileSync(node, "#!/nowhere/sh\n");
      const end = await lemon(root, []);
      expect(end).to.deep.include({ code: 1, stdout: "" });
      expect(end.stderr).to.equal(`lemon: ${node} does not run: spawn ${node} ENOENT\n`);
    });
  });

  describe("below npm", () => {
    const npm = (cwd: string, project: string, args: readonly string[]) =>
      run("npm", ["--prefix", project, "run", "--silent", "lemon", "--", ...args], { cwd });

    it("runs the command where the user stood when npm moved to our own root", async () => {
      const root = checkout();
      const where = join(folder(), "elsewhere");
      mkdirSync(where);
      const end = await npm(where, root, ["--cwd", "here"]);
      expect(told(end)).to.deep.include({
        cwd: where,
        args: [join(root, "cli", "main.ts"), "--cwd", "here"],
      });
    });

    it("stays where a foreign project's script put it", async () => {
      const root = checkout();
      const project = join(folder(), "project");
      const where = join(folder(), "elsewhere");
      mkdirSync(project);
      mkdirSync(where);
      const scripts = { lemon: `"${process.execPath}" "${launcher(root)}"` };
      writeFileSync(join(project, "package.json"), JSON.stringify({ name: "project", scripts }));
      expect(told(await npm(where, project, [])).cwd).to.equal(project);
    });
  });

  describe("as the installed command", () => {
    /** `lemon` as npm links it, seen through one more relative link. */
    function command(): { root: string; lemon: string } {
      const root = installed();
      mkdirSync(join(folder(), "bin"));
      symlinkSync("../lib/node_modules/lemon/bin/lemon", join(folder(), "bin", "lemon"));
      symlinkSync("bin/lemon", join(folder(), "lemon link"));
      return { root, lemon: join(folder(), "lemon link") };
    }
    /** What runs when nothing but PATH is asked: a Node.js that is too old. */
    const oldNode = (): RunOptions => {
      const body = `exec "${process.execPath}" --import '${OLD_NODE}' "$@"`;
      return {
        env: {
          PATH: `${dirname(writeProgram(join(folder(), "old", "node"), body))}:/usr/bin:/bin`,
        },
      };
    };

    it("becomes the packaged Node.js: one process, whatever node is on PATH", async () => {
      const { root, lemon } = command();
      bringNode(root);
      const started = start(lemon, ["a b", "", "--"], oldNode());
      const { args, pid } = told(await started.end);
      expect(args).to.deep.equal([join(root, "dist", "cli", "main.js"), "a b", "", "--"]);
      expect(pid).to.equal(started.child.pid);
    });

    it("becomes the packaged Node.js that npm put beside the package", async () => {
      const { lemon } = command();
      bringNode(join(folder(), "lib"), { prefix: "node-bin" });
      const started = start(lemon, [], oldNode());
      expect(told(await started.end).pid).to.equal(started.child.pid);
    });

    for (const [why, body] of [
      ["does not run here", "exit 127"],
      ["is too old", "echo v23.9.9"],
    ] as const) {
      it(`takes the Node.js on PATH when the packaged one ${why}`, async () => {
        const { root, lemon } = command();
        bringNode(root, { body });
        const path = `${dirname(process.execPath)}:/usr/bin:/bin`;
        const end = await run(lemon, ["exit", "7"], { env: { PATH: path } });
        expect(end).to.include({ code: 7, stderr: "" });
      });
    }

    it("says in one line that the Node.js on PATH is too old, or that there is none", async () => {
      const { lemon } = command();
      expect(await run(lemon, [], oldNode())).to.deep.equal({
        code: 1,
        signal: null,
        stdout: "",
        stderr: "lemon: Node.js 24 or newer is needed, this is v20.1.0\n",
      });
      const tools = join(folder(), "tools");
      mkdirSync(tools);
      for (const name of ["readlink", "dirname"])
        symlinkSync(`/usr/bin/${name}`, join(tools, name));
      expect(await run(lemon, [], { env: { PATH: tools } })).to.deep.equal({
        code: 1,
        signal: null,
        stdout: "",
        stderr: "lemon: Node.js 24 or newer was not found; install it\n",
      });
    });
  });

  it("is the command that package.json installs", () => {
    const { bin } = JSON.parse(readFileSync(join(packageRoot(), "package.json"), "utf8"));
    expect(bin).to.deep.equal({ lemon: "bin/lemon" });
  });
});
