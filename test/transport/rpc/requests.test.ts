import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import type { NodeKey } from "../../../protocol/ids.ts";
import { decode } from "../../../transport/rpc/codec.ts";
import {
  type NodeRequestHandler,
  type NodeRequests,
  requestController,
  serveNodeRequests,
} from "../../../transport/rpc/requests.ts";
import { requestSubject } from "../../../transport/rpc/subjects.ts";
import { type LogLines, logLines } from "../../support/log-lines.ts";
import type { TestServer } from "../../support/nats.ts";
import { plainServer } from "../../support/plain-nats.ts";
import { refusalOf } from "../../support/refusal.ts";

const NODE = "N1" as NodeKey;
const OTHER = "N2" as NodeKey;

describe("a node's request to the controller", () => {
  let nats: TestServer;
  let controller: NatsConnection;
  let worker: NatsConnection;
  let requests: NodeRequests | null = null;

  before(async () => {
    nats = await plainServer();
    controller = await nats.connect({});
    worker = await nats.connect({});
  });
  after(() => nats[Symbol.asyncDispose]());
  afterEach(() => {
    requests?.stop();
    requests = null;
  });

  async function serve(handlers: Readonly<Record<string, NodeRequestHandler>>): Promise<LogLines> {
    const log = logLines();
    requests = serveNodeRequests({ connection: controller, handlers, log: log.log });
    await controller.flush();
    return log;
  }

  const ask = (name: string, params: unknown = null, node = NODE, deadlineMs = 5_000) =>
    requestController(worker, node, name, params, { deadlineMs, mutation: true });

  it("is answered, and the handler knows who asked from the subject, whatever the payload says", async () => {
    await serve({ renew: (from, params) => ({ from, params }) });
    expect(await ask("renew", { nodeKey: OTHER })).to.deep.equal({
      from: NODE,
      params: { nodeKey: OTHER },
    });
    expect(await ask("renew", null, OTHER)).to.deep.equal({ from: OTHER, params: null });
  });

  it("brings back the handler's error, and of a crash nothing but that it was one", async () => {
    const log = await serve({
      refuse() {
        throw new LemonError("node_revoked");
      },
      crash() {
        throw new RangeError("/home/someone/secret");
      },
    });
    expect((await refusalOf(() => ask("refuse"))).code).to.equal("node_revoked");
    expect(await refusalOf(() => ask("crash"))).to.include({
      code: "internal_error",
      mutationMayHaveApplied: true,
    });
    expect(log.text()).to.include("RangeError").and.not.include("secret");
  });

  it("is unavailable at once when nobody serves the name or the connection is closed", async () => {
    await serve({});
    expect(await refusalOf(() => ask("unknown"))).to.include({
      code: "unavailable",
      retrySafe: true,
      mutationMayHaveApplied: false,
    });
    const closed = await nats.connect({});
    await closed.close();
    expect(
      await refusalOf(() =>
        requestController(closed, NODE, "x", null, { deadlineMs: 1_000, mutation: true }),
      ),
    ).to.include({ code: "unavailable", mutationMayHaveApplied: false });
  });

  it("is uncertain when no answer comes in time", async () => {
    await serve({ hang: () => new Promise(() => undefined) });
    expect(await refusalOf(() => ask("hang", null, NODE, 20))).to.include({
      code: "timeout",
      mutationMayHaveApplied: true,
    });
  });

  it("is rate_limited from the 17th at once on, for this node alone", async () => {
    const release = Promise.withResolvers<void>();
    let running = 0;
    await serve({
      async wait() {
        running += 1;
        await release.promise;
      },
    });
    const first = Array.from({ length: 16 }, () => ask("wait"));
    expect((await refusalOf(() => ask("wait"))).code).to.equal("rate_limited");
    expect(running).to.equal(16);
    const other = ask("wait", null, OTHER);
    release.resolve();
    await Promise.all([...first, other]);
    await ask("wait");
  });

  it("is invalid_request when its payload is not plain, and the handler does not run", async () => {
    let heard = 0;
    await serve({ count: () => (heard += 1) });
    const answer = await worker.request(requestSubject(NODE, "count"), Uint8Array.from([0xc1]));
    expect(decode(answer.data)).to.have.nested.property("[1].code", "invalid_request");
    expect(heard).to.equal(0);
  });

  it("runs without an answer when it asks for none", async () => {
    const heard = Promise.withResolvers<NodeKey>();
    await serve({ notice: (from) => heard.resolve(from) });
    worker.publish(requestSubject(NODE, "notice"), Uint8Array.from([0xc0]));
    expect(await heard.promise).to.equal(NODE);
  });

  it("can not have a name that means a reply or stands for several", async () => {
    for (const name of ["r", "*", ">", "a.b", "A", ""]) {
      const refusal = await refusalOf(() =>
        serveNodeRequests({
          connection: controller,
          handlers: { [name]: () => null },
          log: logLines().log,
        }),
      );
      expect(refusal.code, name).to.equal("invalid_request");
    }
  });
});
