/** Owns `lemon process run` for tests: a shell, a terminal, and a control plane that answers what a test scripts. */
import { expect } from "chai";
import { FakeControlPlane, SILENCE } from "./fake-control-plane.ts";
import { ManualTimers } from "./manual-timers.ts";
import { NODE_ID, nodeList, nodeRow } from "./node-rows.ts";
import { ScriptedTerminal, TestShell } from "./test-shell.ts";

type ShellOptions = ConstructorParameters<typeof TestShell>[0];

/** The command that asks again for the run `t:1`. */
export const GET = `lemon process get ${NODE_ID} t:1`;
/** A run by that id, after `lemon process run`. */
const RUN = ["worker-1", "--id", "t:1", "--", "work"] as const;

/** Pauses of the settlement and of the reconnection; other timers are armed for longer. */
export const isPause = (delayMs: number): boolean => delayMs <= 5_000;

export class ProcessCommand {
  readonly peer: FakeControlPlane;
  /** Of the shells that are told to take them. */
  readonly timers = new ManualTimers();
  readonly terminal = new ScriptedTerminal();
  shell: TestShell;

  private constructor(peer: FakeControlPlane) {
    this.peer = peer;
    this.shell = this.newShell();
  }

  static async open(): Promise<ProcessCommand> {
    const peer = await FakeControlPlane.start({ token: "secret" });
    peer.on("node.list", () => nodeList(nodeRow(), nodeRow({ nodeId: "other", name: "other" })));
    return new ProcessCommand(peer);
  }

  /** One whose time is bent: only what `timers` is told passes. */
  static async openBent(): Promise<ProcessCommand> {
    const command = await ProcessCommand.open();
    command.shell = command.newShell({ timers: command.timers });
    return command;
  }

  async close(): Promise<void> {
    await this.peer.stop();
    expect(this.peer.breaches).to.deep.equal([]);
    expect(this.shell.listeners("SIGINT")).to.equal(0);
  }

  newShell(options: ShellOptions = {}): TestShell {
    const environment = { LEMON_CONTROLLER: this.peer.url, LEMON_WS_TOKEN: "secret" };
    return new TestShell({
      ...options,
      environment: { ...environment, ...options.environment },
    });
  }

  run(...words: readonly string[]): Promise<number> {
    return this.shell.run("process", "run", ...words);
  }

  /** Starts the run `t:1`, with these flags; resolves with what resolves at its end, as soon as it is sent. */
  async sent(...flags: readonly string[]): Promise<{ readonly ended: Promise<number> }> {
    const ended = this.run(...flags, ...RUN);
    await this.peer.seen("node.process.run");
    return { ended };
  }

  /** Starts the run `t:1` in front of a terminal, and interrupts it: the terminal shows the question. */
  async asked(): Promise<{ readonly ended: Promise<number> }> {
    this.toTerminal();
    const sent = await this.sent();
    await this.interrupt();
    return sent;
  }

  toTerminal(): void {
    this.shell = this.newShell({ timers: this.timers, terminal: this.terminal });
  }

  /** Ctrl-C, until the terminal has asked what is meant. */
  async interrupt(): Promise<void> {
    this.shell.send("SIGINT");
    await this.terminal.output.said("> ");
  }

  /** The run `t:1` to its end. */
  toItsEnd(): Promise<number> {
    return this.run(...RUN);
  }

  /** The line is cut while the run goes on. */
  dropRun(): FakeControlPlane {
    return this.peer.on("node.process.run", (_params, connection) => {
      connection.drop();
      return SILENCE;
    });
  }

  /** Lets one pause pass as soon as it begins. */
  async pass(): Promise<void> {
    this.timers.advance(await this.timers.armed(isPause));
  }

  /** Lets one pause after the other pass until the command has ended. */
  async passUntil(ended: Promise<number>): Promise<void> {
    let open = true;
    void ended.then(() => {
      open = false;
    });
    while (open) await Promise.race([this.pass(), ended]);
  }
}
