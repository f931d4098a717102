/**
 * Plays the existing `lemon-browser-node` word for word, as control-plane-wire.md 7.3 has it: it must work
 * against this control plane without a change.
 */
import { once } from "node:events";
import { expect } from "chai";
import { WebSocket } from "ws";
import { OPERATOR_TOKEN } from "../../support/gateway.ts";
import { NodeDoor } from "../../support/node-door.ts";

/** A socket as that client drives it: frames by id, events by name, nothing else looked at. */
class BrowserNodeSocket {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<string, (frame: ReturnType<typeof Object>) => void>();
  #hello: (frame: ReturnType<typeof Object>) => void = () => {};
  onEvent: (event: string, payload: ReturnType<typeof Object>) => void = () => {};
  #nextId = 1;

  constructor(url: string) {
    this.#socket = new WebSocket(url);
    this.#socket.on("message", (data) => {
      const frame = JSON.parse(String(data));
      if (frame.type === "hello-ok") this.#hello(frame);
      else if (frame.type === "event") this.onEvent(frame.event, frame.payload);
      else this.#waiting.get(frame.id)?.(frame);
    });
  }

  /** Resolves with `hello-ok`, or with the `res` that refuses it. */
  async connect(params: object) {
    await once(this.#socket, "open");
    const hello = new Promise<ReturnType<typeof Object>>((resolve) => {
      this.#hello = resolve;
    });
    return await Promise.race([hello, this.#request("connect", params)]);
  }

  async call(method: string, params: object) {
    const { ok, payload, error } = await this.#request(method, params);
    if (!ok) throw new Error(`${error.code}: ${error.message}`);
    return payload;
  }

  /** It closes without a code. */
  async close(): Promise<void> {
    this.#socket.close();
    await once(this.#socket, "close");
  }

  #request(method: string, params: object): Promise<ReturnType<typeof Object>> {
    const id = String(this.#nextId);
    this.#nextId += 1;
    this.#socket.send(JSON.stringify({ type: "req", id, method, params }));
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }
}

describe("the browser node of old", () => {
  let door: NodeDoor;

  beforeEach(async () => {
    door = await NodeDoor.open();
  });
  afterEach(() => door.close());

  /** `--pair`: what it would save in `~/.lemon/nodes/browser-node.json`. */
  async function pair(): Promise<{ readonly nodeId: string; readonly token: string }> {
    const socket = new BrowserNodeSocket(door.gateway.url);
    const hello = await socket.connect({
      role: "operator",
      client: { id: "lemon-browser-node-pair" },
      auth: { token: OPERATOR_TOKEN },
    });
    expect(hello.type).to.equal("hello-ok");
    const { pairingId } = await socket.call("node.pair.request", {
      nodeType: "browser",
      nodeName: "Local Browser",
    });
    const { challengeToken, nodeId } = await socket.call("node.pair.approve", { pairingId });
    const { token } = await socket.call("connect.challenge", { challenge: challengeToken });
    await socket.close();
    return { nodeId, token };
  }

  /** Serves as it does: one at a time, what is for its own node id alone. */
  async function serve(saved: { readonly token: string }): Promise<BrowserNodeSocket> {
    const socket = new BrowserNodeSocket(door.gateway.url);
    const hello = await socket.connect({ auth: { token: saved.token } });
    const nodeId = hello.auth.clientId;
    let turn = Promise.resolve();
    socket.onEvent = (event, payload) => {
      if (event !== "node.invoke.request" || payload.nodeId !== nodeId) return;
      const { invokeId, method, args } = payload;
      turn = turn.then(async () => {
        const answer =
          method === "browser.navigate"
            ? { invokeId, result: { url: args.url, title: "Example" } }
            : { invokeId, error: `Unknown method: ${method}` };
        await socket.call("node.invoke.result", answer);
      });
    };
    return socket;
  }

  it("pairs, is approved, takes its token, connects without a role, serves and answers", async () => {
    const saved = await pair();
    const socket = await serve(saved);
    const operator = await door.operator();
    const { nodes } = await operator.call("node.list");
    expect(nodes).to.have.length(1);
    expect(nodes[0]).to.include({
      nodeId: saved.nodeId,
      name: "Local Browser",
      type: "browser",
      status: "online",
    });
    const args = { url: "https://example.org/" };
    const asked = await operator.call("node.invoke", {
      nodeId: saved.nodeId,
      method: "browser.navigate",
      args,
    });
    expect(await operator.event()).to.deep.equal({
      event: "node.invoke.completed",
      payload: {
        invokeId: asked.invokeId,
        nodeId: saved.nodeId,
        ok: true,
        result: { url: args.url, title: "Example" },
        error: null,
      },
    });
    const other = await operator.call("node.invoke", {
      nodeId: saved.nodeId,
      method: "browser.hover",
    });
    expect((await operator.event()).payload).to.deep.equal({
      invokeId: other.invokeId,
      nodeId: saved.nodeId,
      ok: false,
      result: null,
      error: "Unknown method: browser.hover",
    });
    await socket.close();
    await door.left(2);
    const offline = await operator.refusal("node.invoke", {
      nodeId: saved.nodeId,
      method: "browser.navigate",
    });
    expect(offline.message).to.equal("Node is not online");
  });

  it("serves again with what it saved", async () => {
    const saved = await pair();
    await (await serve(saved)).close();
    const socket = await serve(saved);
    const operator = await door.operator();
    const { nodeId } = saved;
    await operator.call("node.invoke", { nodeId, method: "browser.navigate", args: { url: "u" } });
    expect((await operator.event()).payload).to.deep.include({ ok: true });
    await socket.close();
  });

  it("learns by the answer to its connect that it is refused", async () => {
    const socket = new BrowserNodeSocket(door.gateway.url);
    const refusal = await socket.connect({ auth: { token: "no token of ours" } });
    expect(refusal).to.include({ type: "res", id: "1", ok: false });
    expect(refusal.error).to.include({ code: "UNAUTHORIZED", message: "Invalid token" });
    await socket.close();
  });
});
