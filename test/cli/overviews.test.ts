import { expect } from "chai";
import type { TreeRow } from "../../protocol/methods/system.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { FakeControlPlane } from "../support/fake-control-plane.ts";
import { ManualTimers } from "../support/manual-timers.ts";
import { NODE_ID, nodeList, nodeRow } from "../support/node-rows.ts";
import { TestShell } from "../support/test-shell.ts";

function row(path: string, fields: Partial<TreeRow> = {}): TreeRow {
  return {
    path,
    kind: path.slice(path.lastIndexOf("/") + 1),
    state: "running",
    restart: "permanent",
    mailboxDepth: 0,
    oldestMessageAgeMs: null,
    startedAtMs: 1_000_000,
    restartsInWindow: 0,
    restartsLeft: null,
    lastCrash: null,
    children: [],
    ...fields,
  };
}

const TREES: ResultOf<"supervision.tree"> = {
  generatedAtMs: 1_060_000,
  trees: [
    {
      source: "controller",
      name: "controller",
      error: null,
      tree: row("/lemon", {
        restartsLeft: 3,
        restartsInWindow: 2,
        children: [
          row("/lemon/sessions", {
            kind: "supervisor",
            children: [
              row("/lemon/sessions/s1", {
                kind: "session",
                restart: "temporary",
                mailboxDepth: 120,
                oldestMessageAgeMs: 2_500,
              }),
            ],
          }),
          row("/lemon/store", { state: "backing_off", startedAtMs: null, lastCrash: "no_space" }),
        ],
      }),
    },
    { source: NODE_ID, name: "wor\u001b[1mker", error: "node_offline", tree: null },
  ],
};

const STATUS: ResultOf<"status"> = {
  server: {
    version: "2026.11.0",
    uptime_ms: 90_000,
    memory_mb: 81.4,
    otp_release: null,
    schedulers: 2,
    build: { runtimeMode: "source-dev", channel: null, commit: null },
  },
  connections: { active: 3, operators: 2, nodes: 1, devices: 0 },
  runs: { active: 0, queued: null, completed_today: 5, failed_today: null },
  channels: { configured: [], connected: [], details: [] },
  skills: { installed: 0, enabled: 0 },
  providers: [],
  lifecycle: { restart: false, stop: false, reason: "not served" },
  subsystems: { receipts: { status: "available" } },
  summary: { action: "status", cleanup: {} },
};

describe("the overviews", () => {
  let peer: FakeControlPlane;
  let timers: ManualTimers;

  beforeEach(async () => {
    peer = await FakeControlPlane.start();
    peer
      .on("supervision.tree", () => TREES)
      .on("node.list", () => nodeList(nodeRow()))
      .on("status", () => STATUS);
    timers = new ManualTimers();
  });

  afterEach(async () => {
    await peer.stop();
    expect(peer.breaches).to.deep.equal([]);
  });

  const newShell = (stdoutIsTerminal = false) =>
    new TestShell({ environment: { LEMON_CONTROLLER: peer.url }, timers, stdoutIsTerminal });

  it("tree draws every actor with its state, its restarts and its mailbox", async () => {
    const shell = newShell();
    expect(await shell.run("tree")).to.equal(0);
    expect(shell.stdout.text).to.equal(
      [
        "controller controller",
        "lemon  running  permanent  up 60 s  restarts 2 (3 left)  mailbox 0",
        "├─ sessions  supervisor  running  permanent  up 60 s  mailbox 0",
        "│  └─ s1  session  running  temporary  up 60 s  mailbox 120  oldest 3 s",
        "└─ store  backing_off  permanent  mailbox 0  last crash no_space",
        "",
        `node wor\\u{1b}[1mker ${NODE_ID}`,
        "  no answer (node_offline)",
        "",
      ].join("\n"),
    );
  });

  it("tree colours on a terminal, and only there", async () => {
    const shell = newShell(true);
    await shell.run("tree");
    expect(shell.stdout.text).to.include("\u001b[32mrunning\u001b[0m");
    // The remote name is escaped all the same.
    expect(shell.stdout.text).to.include("wor\\u{1b}[1mker");
  });

  it("tree --node asks for one node's, by its durable id", async () => {
    expect(await newShell().run("tree", "--node", "worker-1")).to.equal(0);
    expect(peer.requests.at(-1)?.params).to.deep.equal({ nodeId: NODE_ID });
  });

  it("tree --json is the answer itself", async () => {
    const shell = newShell();
    expect(await shell.run("tree", "--json")).to.equal(0);
    expect(shell.document).to.deep.equal(TREES);
  });

  it("tree --watch draws again after two seconds, until an interrupt", async () => {
    const shell = newShell(true);
    const ended = shell.run("tree", "--watch");
    await peer.seen("supervision.tree", 1);
    await timers.armed((delayMs) => delayMs === 2_000);
    timers.advance(2_000);
    await peer.seen("supervision.tree", 2);
    await timers.armed((delayMs) => delayMs === 2_000);
    shell.send("SIGINT");
    expect(await ended).to.equal(0);
    expect(shell.stdout.text.split("\u001b[H")).to.have.length(3);
    expect(shell.listeners("SIGINT")).to.equal(0);
  });

  it("tree --watch --json is refused: it would be many documents", async () => {
    expect(await newShell().run("tree", "--watch", "--json")).to.equal(2);
  });

  it("status says unknown for what is not known, never zero", async () => {
    const shell = newShell();
    expect(await shell.run("status")).to.equal(0);
    expect(shell.stdout.text)
      .to.match(/^connections +3: 2 operators, 1 node, 0 devices$/m)
      .and.match(/^runs active +0$/m)
      .and.match(/^runs queued +unknown$/m)
      .and.match(/^completed today +5$/m)
      .and.match(/^failed today +unknown$/m)
      .and.match(/^receipts +available$/m);
  });

  it("status --json is the answer itself", async () => {
    const shell = newShell();
    expect(await shell.run("status", "--json")).to.equal(0);
    expect(shell.document).to.deep.equal(STATUS);
  });
});

describe("the command line", () => {
  const run = async (...words: readonly string[]) => {
    const shell = new TestShell();
    return {
      exitCode: await shell.run(...words),
      out: shell.stdout.text,
      error: shell.stderr.text,
    };
  };

  for (const words of [["--help"], ["help"], ["node", "--help"], ["help", "process", "run"]]) {
    it(`answers ${words.join(" ")} on stdout with 0`, async () => {
      const { exitCode, out, error } = await run(...words);
      expect(exitCode).to.equal(0);
      expect(out).to.match(/^Usage: lemon/);
      expect(error).to.equal("");
    });
  }

  for (const [columns, widest] of [
    [90, 90],
    [undefined, 80],
  ] as const) {
    it(`folds the descriptions of help to ${widest} characters where a terminal has ${columns ?? "none"}`, async () => {
      const shell = new TestShell();
      const stdout = Object.assign(shell.stdout, columns === undefined ? {} : { columns });
      expect(await shell.run("process", "run", "--help")).to.equal(0);
      const [, options = ""] = stdout.text.split(/^(?=Options:)/m);
      const lines = options.split("\n\n")[0]?.split("\n") ?? [];
      const width = Math.max(...lines.map((line) => line.length));
      expect(width)
        .to.be.at.most(widest)
        .and.at.least(widest - 12);
    });
  }

  it("documents the exit codes where they matter", async () => {
    for (const words of [["--help"], ["process", "run", "--help"]]) {
      const { out } = await run(...words);
      for (const code of [0, 1, 2, 121, 122, 123, 125, 126])
        expect(out).to.match(new RegExp(`^ +${code} `, "m"));
    }
  });

  for (const [words, hint] of [
    [["nod", "list"], /unknown command 'nod'\n\(Did you mean node\?\)\nlemon: see `lemon --help`/],
    [
      ["node", "lst"],
      /unknown command 'lst'\n\(Did you mean list\?\)\nlemon: see `lemon node --help`/,
    ],
    [
      ["status", "--jsn"],
      /unknown option '--jsn'\n\(Did you mean --json\?\)\nlemon: see `lemon status --help`/,
    ],
    [["node", "show"], /missing required argument 'node'\nlemon: see `lemon node show --help`/],
    [["node", "show", "a", "b"], /too many arguments/],
    [["node", "join"], /required option '--name <name>' not specified/],
    [["up", "--controller", "x"], /unknown option '--controller'/],
    [["node"], /^Usage: lemon node/],
    [[], /^Usage: lemon/],
  ] as const) {
    it(`answers 2 and a hint on stderr for: lemon ${words.join(" ")}`, async () => {
      const { exitCode, out, error } = await run(...words);
      expect(exitCode).to.equal(2);
      expect(out).to.equal("");
      expect(error).to.match(hint);
    });

    it(`answers one JSON document for: lemon ${words.join(" ")} --json`, async () => {
      const shell = new TestShell();
      expect(await shell.run(...words, "--json")).to.equal(2);
      expect(shell.document).to.have.nested.property("error.exitCode", 2);
    });
  }

  it("prints the version in three ways", async () => {
    const { version } = (await import("../../package.json", { with: { type: "json" } })).default;
    expect((await run("version")).out).to.include(`lemon ${version} (Node.js `);
    expect((await run("--version")).out).to.equal(`${version}\n`);
    const shell = new TestShell();
    await shell.run("version", "--json");
    expect(shell.document).to.include({ version });
  });
});
