import { assert } from "chai";
import { MAX_IN_FLIGHT } from "../../../actors/session/requests.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";
import { codes, RENAMED, within } from "../../support/served-client.ts";

describe("requests on one connection", () => {
  it("do not wait for one another: a slow one delays none, and each answer finds its id", () => {
    const slow = Promise.withResolvers<void>();
    return within(
      {
        "node.rename": async () => {
          await slow.promise;
          return RENAMED;
        },
      },
      async (client) => {
        client.request("node.rename", { nodeId: "n", name: "x" }, "slow");
        client.request("health", {}, "quick");
        assert.equal((await client.next()).id, "quick");
        slow.resolve();
        const late = await client.next();
        assert.equal(late.id, "slow");
        assert.deepEqual(late.payload, RENAMED);
      },
    );
  });

  it("begin in the order in which they came", () => {
    const begun: string[] = [];
    return within(
      {
        "node.rename": async ({ name }) => {
          begun.push(name);
          await null;
          return RENAMED;
        },
      },
      async (client) => {
        const names = Array.from({ length: 100 }, (_, index) => String(index));
        for (const name of names) client.request("node.rename", { nodeId: "n", name });
        await client.take(names.length);
        assert.deepEqual(begun, names);
      },
    );
  });

  it("have ids of their own while in flight; an id is free again with its answer", () => {
    const calls: PromiseWithResolvers<void>[] = [];
    return within(
      {
        "node.rename": async () => {
          const call = Promise.withResolvers<void>();
          calls.push(call);
          await call.promise;
          return RENAMED;
        },
      },
      async (client) => {
        const params = { nodeId: "n", name: "x" };
        client.request("node.rename", params, "same");
        client.request("health", {}, "same");
        const refused = await client.next();
        assert.equal(refused.id, "same");
        assert.deepEqual(codes(refused), ["INVALID_REQUEST", "duplicate_request_id"]);
        assert.equal(calls.length, 1);
        calls[0]?.resolve();
        assert.equal((await client.next()).ok, true);
        client.request("node.rename", params, "same");
        assert.deepEqual(codes(await client.call("node.rename", { ...params, nodeId: 1 })), [
          "INVALID_REQUEST",
          "invalid_params",
        ]);
        calls[1]?.resolve();
        assert.equal((await client.next()).id, "same");
      },
    );
  });

  it("are 256 in flight at most; one more is refused and does nothing; health is answered all the same", () => {
    let begun = 0;
    const go = Promise.withResolvers<void>();
    return within(
      {
        "node.rename": async () => {
          begun += 1;
          await go.promise;
          return RENAMED;
        },
      },
      async (client) => {
        const params = { nodeId: "n", name: "x" };
        const sent = 300;
        for (let index = 0; index < sent; index += 1) {
          client.request("node.rename", params, String(index));
        }
        const refused = await client.take(sent - MAX_IN_FLIGHT);
        assert.deepEqual(
          refused.map((frame) => frame.id),
          Array.from({ length: sent - MAX_IN_FLIGHT }, (_, index) => String(MAX_IN_FLIGHT + index)),
        );
        for (const frame of refused) {
          assert.deepEqual(codes(frame), ["RATE_LIMITED", "too_many_requests_in_flight"]);
          assert.deepEqual(frame.error?.details, {
            code: "too_many_requests_in_flight",
            retrySafe: true,
            mutationMayHaveApplied: false,
          });
        }
        assert.equal(begun, MAX_IN_FLIGHT);
        assert.equal((await client.call("health")).ok, true);
        go.resolve();
        const answered = await client.take(MAX_IN_FLIGHT);
        assert.isTrue(answered.every((frame) => frame.ok === true));
        assert.equal(new Set(answered.map((frame) => frame.id)).size, MAX_IN_FLIGHT);
        client.request("node.rename", params, "again");
        assert.equal((await client.next()).ok, true);
      },
    );
  });

  it("are answered with a timeout when their handler forgot its own deadline", () => {
    const clock = new FakeClock();
    const never = new Promise<never>(() => {});
    return within(
      { "node.rename": () => never },
      async (client) => {
        client.request("node.rename", { nodeId: "n", name: "x" }, "lost");
        await client.call("health");
        await clock.advance(34_999);
        assert.deepEqual(client.unread, []);
        await clock.advance(1);
        const answer = await client.next();
        assert.equal(answer.id, "lost");
        assert.deepEqual(codes(answer), ["TIMEOUT", "timeout"]);
        assert.equal(answer.error?.details?.["mutationMayHaveApplied"], true);
      },
      { clock },
    );
  });

  it("get one answer each, also when a handler settles after its time", () => {
    const clock = new FakeClock();
    const late = Promise.withResolvers<typeof RENAMED>();
    return within(
      { "node.rename": () => late.promise },
      async (client) => {
        client.request("node.rename", { nodeId: "n", name: "x" }, "late");
        await client.call("health");
        await clock.advance(35_000);
        assert.equal((await client.next()).error?.code, "TIMEOUT");
        late.resolve(RENAMED);
        client.request("health", {}, "after");
        assert.equal((await client.next()).id, "after");
        assert.deepEqual(client.unread, []);
      },
      { clock },
    );
  });

  it("leave no timer behind, answered or not", () => {
    const clock = new FakeClock();
    const calls: PromiseWithResolvers<typeof RENAMED>[] = [];
    const params = { nodeId: "n", name: "x" };
    return within(
      {
        "node.rename": () => {
          const call = Promise.withResolvers<typeof RENAMED>();
          calls.push(call);
          return call.promise;
        },
        "node.remove": async (_params, caller) => {
          caller.close(4000, "");
          return { nodeId: "n", removed: true };
        },
      },
      async (client, gateway) => {
        const idle = clock.pending;
        for (let index = 0; index < 3; index += 1) client.request("node.rename", params);
        await client.call("health");
        assert.equal(clock.pending, idle + 3);
        calls[0]?.resolve(RENAMED);
        calls[1]?.reject(new LemonError("node_offline"));
        await client.take(2);
        assert.equal(clock.pending, idle + 1);
        // With one still in flight, and one that is begun as the connection ends.
        client.request("node.remove", { nodeId: "n" });
        await client.closed();
        while (gateway.connections() > 0) await settle();
        assert.equal(clock.pending, 0);
      },
      { clock },
    );
  });
});
