/** Owns one party on `/ws` for tests: its calls, and the events it is told meanwhile, in the order they came. */
import { AssertionError } from "chai";
import type { ClientOptions } from "ws";
import { type Frame, operator, WsClient } from "./ws-client.ts";

export class Party {
  readonly client: WsClient;
  readonly hello: Frame;
  readonly #events: Frame[] = [];

  private constructor(client: WsClient, hello: Frame) {
    this.client = client;
    this.hello = hello;
  }

  /** Connects as the operator, or as `params` say. */
  static async connect(
    url: string,
    params: object = operator(),
    options: ClientOptions = {},
  ): Promise<Party> {
    const client = await WsClient.open(url, options);
    const hello = await client.call("connect", params);
    if (hello["type"] !== "hello-ok") throw new Error(`no hello-ok: ${JSON.stringify(hello)}`);
    return new Party(client, hello);
  }

  /** The whole answer; events that come before it are kept. */
  async answer(method: string, params?: unknown): Promise<Frame> {
    const id = this.client.request(method, params);
    for (;;) {
      const frame = await this.client.next();
      if (frame["type"] === "res" && frame.id === id) return frame;
      this.#events.push(frame);
    }
  }

  /** What a call that succeeds answers. */
  async call(method: string, params?: unknown) {
    const { ok, payload, error } = await this.answer(method, params);
    if (ok !== true) throw new AssertionError(`${method} was refused: ${error?.message}`);
    return Object(payload);
  }

  /** What a call that fails is refused with. */
  async refusal(method: string, params?: unknown) {
    const { ok, error } = await this.answer(method, params);
    if (ok !== false || error === undefined) throw new AssertionError(`${method} succeeded`);
    return error;
  }

  /** The next event, which may still be on its way. */
  async event(): Promise<{ readonly event: unknown; readonly payload: ReturnType<typeof Object> }> {
    const { event, payload } = this.#events.shift() ?? (await this.client.next());
    return { event, payload: Object(payload) };
  }

  /** The events that it has been told by now. */
  async told(): Promise<readonly { readonly event: unknown; readonly payload: unknown }[]> {
    await this.answer("health");
    return this.#events.splice(0).map(({ event, payload }) => ({ event, payload }));
  }
}
