/** Owns the process methods of one online node for tests, and what its worker answers next. */
import type { ProcessId } from "../../protocol/ids.ts";
import type { ParamsOf } from "../../protocol/methods.ts";
import type { ProcessReceipt } from "../../protocol/process.ts";
import { NodesRoom, operator } from "./nodes-room.ts";

export const PROCESS_ID = "probe:1" as ProcessId;
export const PROCESS_METHODS = [
  "node.process.run",
  "node.process.get",
  "node.process.cancel",
] as const;
type ProcessMethod = (typeof PROCESS_METHODS)[number];

export class AskedProcesses {
  readonly room: NodesRoom;
  readonly node: Awaited<ReturnType<NodesRoom["online"]>>;
  /** What the worker answers next. */
  answer: () => unknown = () => undefined;

  private constructor(room: NodesRoom, node: AskedProcesses["node"]) {
    this.room = room;
    this.node = node;
  }

  static async open(): Promise<AskedProcesses> {
    const room = await NodesRoom.open();
    const answer = (): unknown => asked.answer();
    const asked = new AskedProcesses(room, await room.online("worker-1", { answer }));
    return asked;
  }

  async close(): Promise<void> {
    await this.room.close();
  }

  runParams(changes: Partial<ParamsOf<"node.process.run">> = {}): ParamsOf<"node.process.run"> {
    return {
      nodeId: this.node.nodeId,
      processId: PROCESS_ID,
      cwd: ".",
      argv: ["/bin/cat"],
      stdinBase64: "AP+A",
      timeoutMs: 5_000,
      maxOutputBytes: 100,
      ...changes,
    };
  }

  async call(method: ProcessMethod, nodeId: string = this.node.nodeId) {
    return method === "node.process.run"
      ? await this.room.nodes.methods[method](this.runParams({ nodeId }), operator())
      : await this.room.nodes.methods[method]({ nodeId, processId: PROCESS_ID }, operator());
  }

  receipt(changes: Partial<ProcessReceipt> = {}): ProcessReceipt {
    return {
      processId: PROCESS_ID,
      nodeId: this.node.nodeId,
      state: "completed",
      exitCode: 0,
      stdout: Uint8Array.of(1, 2, 255),
      stderr: new Uint8Array(),
      outputTruncated: false,
      ...changes,
    };
  }

  /** One of which nothing is known but its state. */
  bare(state: ProcessReceipt["state"]): ProcessReceipt {
    return this.receipt({
      state,
      exitCode: null,
      stdout: null,
      stderr: null,
      outputTruncated: true,
    });
  }
}
