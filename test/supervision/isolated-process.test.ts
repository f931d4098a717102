import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { identify, isAlive, waitForEnd } from "../../host/process-identity.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { ActorRef } from "../../supervision/actor.ts";
import { type IsolatedProtocol, isolatedProcess } from "../../supervision/isolated-process.ts";
import {
  codeOfRejection,
  supervisorSpec,
  type TestSystem,
  testSystem,
} from "../support/supervision.ts";
import { tempFolder } from "../support/temp-folder.ts";

const ENTRY = new URL("../support/isolated-program.ts", import.meta.url);
const WAIT = { deadlineMs: 60_000 };

interface Room extends AsyncDisposable {
  readonly system: TestSystem;
  readonly actor: ActorRef<IsolatedProtocol>;
  /** Resolves when the process of the next life is ready. */
  ready(): Promise<void>;
}

async function room(opening: unknown = "open"): Promise<Room> {
  const system = testSystem();
  let told = Promise.withResolvers<void>();
  const parent = await system.root.startSupervisor(supervisorSpec("room"));
  const actor = await parent.startActor(
    isolatedProcess({
      id: "isolated",
      kind: "isolated",
      entry: ENTRY,
      opening,
      deadlineMs: 25_000,
      onReady: () => told.resolve(),
    }),
  );
  return {
    system,
    actor,
    async ready() {
      await told.promise;
      told = Promise.withResolvers();
    },
    [Symbol.asyncDispose]: () => system.shutdown(),
  };
}

async function identityOf(actor: ActorRef<IsolatedProtocol>) {
  const identity = identify(Number(await actor.ask("call", "pid", WAIT)));
  if (identity === null) throw new Error("it does not live");
  return identity;
}

describe("an isolated process", () => {
  it("answers, with bytes as bytes and failures as those of the table", async () => {
    await using place = await room();
    const bytes = Uint8Array.of(0, 255, 10);
    const echoed = await place.actor.ask("call", { bytes, nested: [1n, null, "é"] }, WAIT);
    expect(echoed).to.deep.include({ nested: [1n, null, "é"] });
    expect(Buffer.from(Object(echoed).bytes)).to.deep.equal(Buffer.from(bytes));
    const refused = await place.actor.ask("call", "refuse", WAIT).catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(LemonError);
    expect(refused).to.include({ code: "no_space", message: "None", retrySafe: false });
    expect(refused).to.have.deep.property("details", { left: 2, name: null });
  });

  it("gets and gives many bytes whole, wherever they stand, one message's not in another's", async () => {
    await using place = await room();
    const edges = [16_383, 16_384, 16_385, 1_048_576, 2_097_152, 2_097_153];
    for (const [at, length] of edges.entries()) {
      const bytes = new Uint8Array(length).fill(at + 1);
      const few = new Uint8Array(100).fill(9);
      const asked = { method: "m", request: { path: "p", few, bytes, after: null } };
      const { method, request } = Object(await place.actor.ask("call", asked, WAIT));
      expect([method, request.path, request.after]).to.deep.equal(["m", "p", null]);
      expect(Buffer.compare(request.bytes, bytes)).to.equal(0);
      expect(Buffer.compare(request.few, few)).to.equal(0);
      const whole = await place.actor.ask("call", { bytes, also: bytes }, WAIT);
      expect(Buffer.compare(Object(whole).bytes, bytes)).to.equal(0);
      expect(Buffer.compare(Object(whole).also, bytes)).to.equal(0);
    }
  });

  it("tells of a fault in it by a code, and lives on", async () => {
    await using place = await room();
    const identity = await identityOf(place.actor);
    const failure = await place.actor.ask("call", "fail", WAIT).catch((error: unknown) => error);
    expect(failure).to.include({ code: "internal_error" });
    expect(String(failure)).to.not.include("secret");
    expect(await identityOf(place.actor)).to.deep.equal(identity);
  });

  it("has neither our environment, nor our directory, nor a descriptor of ours", async () => {
    using temp = tempFolder();
    const mine = openSync(temp.path, "r");
    try {
      await using place = await room();
      const names = await place.actor.ask("call", "environment", WAIT);
      expect(names).to.be.an("array");
      for (const name of Object(names)) expect(name).to.match(/^NODE_(COMPILE_CACHE|CHANNEL_.*)$/);
      expect(await place.actor.ask("call", "cwd", WAIT)).to.equal("/");
      if (process.platform !== "linux") return;
      const open = await place.actor.ask("call", "descriptors", WAIT);
      const paths = Object(open).filter((target: string) => target.startsWith("/"));
      for (const path of paths)
        expect(path).to.match(/^\/(dev\/null|proc\/\d+\/fd|memfd:lemon \(deleted\))$/);
    } finally {
      closeSync(mine);
    }
  });

  it("ends with its actor", async () => {
    const place = await room();
    const identity = await identityOf(place.actor);
    await place.actor.stop();
    expect(isAlive(identity)).to.equal(false);
    await place.system.shutdown();
  });

  it("is killed when a request takes too long, and is there again", async () => {
    await using place = await room();
    await place.ready();
    const identity = await identityOf(place.actor);
    const hung = codeOfRejection(place.actor.ask("call", "hang", WAIT));
    await place.system.clock.advance(24_999);
    expect(isAlive(identity)).to.equal(true);
    await place.system.clock.advance(1);
    expect(await hung).to.equal("deadline_exceeded");
    expect(await waitForEnd(identity, 60_000)).to.equal(true);
    await backedOff(place);
    await place.ready();
    expect(await place.actor.ask("call", "opening", WAIT)).to.equal("open");
    expect(await identityOf(place.actor)).to.not.deep.equal(identity);
  });

  it("settles what is under way when it ends by itself, or is killed by somebody", async () => {
    await using place = await room();
    await place.ready();
    expect(await codeOfRejection(place.actor.ask("call", "exit", WAIT))).to.match(/^actor_/);
    await backedOff(place);
    await place.ready();
    const { pid } = await identityOf(place.actor);
    const hung = codeOfRejection(place.actor.ask("call", "hang", WAIT));
    process.kill(pid, "SIGKILL");
    expect(await hung).to.match(/^actor_(ended|crashed)$/);
  });

  it("is killed when it answers what is no answer", async () => {
    await using place = await room();
    await place.ready();
    const identity = await identityOf(place.actor);
    expect(await codeOfRejection(place.actor.ask("call", "nonsense", WAIT))).to.equal(
      "actor_ended",
    );
    expect(await waitForEnd(identity, 60_000)).to.equal(true);
  });

  it("takes one request after the other", async () => {
    await using place = await room();
    const numbers = Array.from({ length: 50 }, (_, index) => index);
    const asked = numbers.map((number) => place.actor.ask("call", number, WAIT));
    expect(await Promise.all(asked)).to.deep.equal(numbers);
  });

  it("counts as a crash of the actor when it can not be opened, and whoever started it lives", async () => {
    const place = await room("refuse");
    expect(await codeOfRejection(place.actor.ask("call", "pid", WAIT))).to.match(/^actor_/);
    await backedOff(place);
    await place.system.shutdown();
  });

  for (const how of ["idle", "hanging"]) {
    it(`ends with its parent that was killed, ${how} or not`, async () => {
      if (how === "hanging" && process.platform !== "linux") return;
      const parent = spawn(
        process.execPath,
        [fileURLToPath(new URL("../support/isolated-parent.ts", import.meta.url)), how],
        { stdio: ["ignore", "pipe", "inherit"] },
      );
      const [line] = await once(parent.stdout, "data");
      const identity = identify(Number(String(line)));
      if (identity === null) throw new Error("it does not live");
      parent.kill("SIGKILL");
      expect(await waitForEnd(identity, 60_000)).to.equal(true);
    });
  }
});

/** Lets the back-off pass, once the supervisor has heard of the end. */
async function backedOff({ system }: Room): Promise<void> {
  const state = () => system.snapshot().children[0]?.children[0]?.state;
  while (state() !== "backing_off") await new Promise((resolve) => setImmediate(resolve));
  await system.clock.advance(1_000);
}
