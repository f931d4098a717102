import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { assert } from "chai";
import { type RecordBench, recordBench } from "../../support/record-bench.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";
import { type SetPayload, VaultModel } from "../../support/vault-model.ts";
import { type Outcome, VaultProcess } from "../../support/vault-process.ts";
import type { VaultRequest } from "../../support/vault-worker.ts";

const STEPS = 10_000;
const NAMES = Array.from({ length: 12 }, (_, at) => `integration/name-${at}`);
/** So many steps lie between two kills, on average. */
const STEPS_PER_WORKER_KILL = 600;
const STEPS_PER_SERVER_KILL = 400;
const STEPS_PER_ROTATION = 200;
/** A set does some ten things to the store and the disk, a start some twenty. */
const LATEST_KILL = 24;
/** Requests that are sent together while nothing is killed. */
const TOGETHER = 8;
/** Says that nothing was done. */
const NOTHING_DONE = ["secret_store_unavailable", "durability_unproven"];
const CANARY = "canary-9d41";

/** mulberry32: a history that can be played again. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

class History {
  readonly #bench: RecordBench;
  readonly #sealed: string;
  readonly #random: () => number;
  readonly #model = new VaultModel(Date.now());
  readonly #sets = new Map<string, SetPayload>();
  #now: VaultProcess;
  #next: VaultProcess;
  #serial = 0;
  /** Sent, and not compared yet with what the model said of it then. */
  #sent: { readonly outcome: Promise<Outcome>; readonly expected: Outcome }[] = [];
  /** The process that serves will kill itself. */
  #isArmed = false;
  workerKills = 0;
  serverKills = 0;
  rotations = 0;
  refusals = new Map<string, number>();

  constructor(bench: RecordBench, sealed: string, seed: number) {
    this.#bench = bench;
    this.#sealed = sealed;
    this.#random = random(seed);
    this.#now = VaultProcess.load(bench, sealed);
    this.#next = VaultProcess.load(bench, sealed);
  }

  async begin(): Promise<void> {
    await this.#now.open(this.#model.nowMs);
  }

  /** In order; what is still there after that is killed. */
  async end(): Promise<void> {
    await this.#now[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#now.kill(), this.#next.kill()]);
  }

  async step(): Promise<void> {
    // What is sent together is of one instant: the process has one clock.
    if (this.#sent.length === 0) {
      this.#model.nowMs += this.#below(5) === 0 ? this.#below(60_000) : this.#below(5);
    }
    const request = this.#request();
    const isServerKilled = this.#below(STEPS_PER_SERVER_KILL) === 0;
    const isKilled = this.#below(STEPS_PER_WORKER_KILL) === 0;
    if (!isServerKilled && !isKilled && !this.#isArmed && request.type !== "rotate") {
      this.#sent.push({ expected: this.#expected(request), outcome: this.#ask(request) });
      if (this.#sent.length >= TOGETHER) await this.flush();
      return;
    }
    await this.flush();
    if (isKilled && !this.#isArmed) {
      this.#isArmed = true;
      this.#now.killAt(this.#below(LATEST_KILL));
    }
    const outcome = await (isServerKilled ? this.#whileServerDies(request) : this.#ask(request));
    await this.#check(request, outcome);
  }

  /** Compares what was sent together. */
  async flush(): Promise<void> {
    const sent = this.#sent;
    this.#sent = [];
    for (const { expected, outcome } of sent) assert.deepEqual(plain(await outcome), expected);
  }

  /** Everything that the model knows. */
  async compare(): Promise<void> {
    await this.flush();
    await this.#settled({ type: "list", payload: null });
    for (const name of NAMES) {
      await this.#settled({ type: "exists", payload: { name } });
      await this.#settled({ type: "resolve", payload: { name } });
    }
    for (const operationId of this.#model.operations) {
      await this.#settled({ type: "receipt", payload: { operationId } });
    }
  }

  /** How many values stand. */
  get standing(): number {
    return this.#model.names().length;
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }

  #one<T>(list: readonly T[], otherwise: T): T {
    return list[this.#below(list.length)] ?? otherwise;
  }

  #request(): VaultRequest {
    const name = this.#one(NAMES, "");
    const operationId = this.#one(this.#model.operations, "none");
    if (this.#below(STEPS_PER_ROTATION) === 0) {
      return { type: "rotate", payload: { key: randomBytes(32) } };
    }
    const kinds: readonly (() => VaultRequest)[] = [
      () => ({ type: "set", payload: this.#set(name, null) }),
      () => ({ type: "set", payload: this.#set(name, null) }),
      () => ({ type: "set", payload: this.#set(name, `op:${this.#serial}`) }),
      () => ({ type: "set", payload: this.#set(name, `op:${this.#serial}`) }),
      () => ({ type: "set", payload: this.#sets.get(operationId) ?? this.#set(name, "op:0") }),
      () => ({ type: "set", payload: this.#set(name, operationId) }),
      () => ({ type: "delete", payload: { name: ` ${name}` } }),
      () => ({ type: "list", payload: null }),
      () => ({ type: "exists", payload: { name } }),
      () => ({ type: "resolve", payload: { name } }),
      () => ({ type: "resolve", payload: { name } }),
      () => ({ type: "receipt", payload: { operationId } }),
      () => ({ type: "receipt", payload: { operationId: `op:${this.#serial}` } }),
    ];
    return this.#one(kinds, () => ({ type: "list", payload: null }))();
  }

  #set(name: string, operationId: string | null): SetPayload {
    this.#serial += 1;
    const sizeBytes = this.#below(30) === 0 ? 40_000 : this.#below(200);
    const text = `${CANARY}-${this.#serial}-${"x".repeat(sizeBytes)}`;
    const expiresAtMs = this.#below(4) === 0 ? this.#model.nowMs + 1 + this.#below(60_000) : null;
    return { name: ` ${name} `, text, operationId, provider: "manual", expiresAtMs };
  }

  #ask(request: VaultRequest): Promise<Outcome> {
    return this.#now.ask(request, this.#model.nowMs);
  }

  async #whileServerDies(request: VaultRequest): Promise<Outcome> {
    this.serverKills += 1;
    const outcome = this.#ask(request);
    for (let turns = this.#below(40); turns > 0; turns -= 1) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    await this.#bench.server.kill();
    await this.#bench.server.restart();
    return await outcome;
  }

  /** What is answered, asked again by the next process where one was killed, or by the same for as long as its store is away. */
  async #settled(request: VaultRequest): Promise<void> {
    for (;;) {
      const outcome = await this.#ask(request);
      if (outcome.kind === "died") await this.#follow();
      else if (outcome.kind === "answer" || !NOTHING_DONE.includes(outcome.code)) {
        assert.deepEqual(outcome, this.#expected(request));
        return;
      }
    }
  }

  async #follow(): Promise<void> {
    this.workerKills += 1;
    await this.#now.kill();
    this.#isArmed = false;
    this.#now = this.#next;
    this.#next = VaultProcess.load(this.#bench, this.#sealed);
    await this.#now.open(this.#model.nowMs);
  }

  async #check(request: VaultRequest, outcome: Outcome): Promise<void> {
    if (outcome.kind === "died") await this.#follow();
    const code = outcome.kind === "refused" ? outcome.code : outcome.kind;
    this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1);
    const isUnknown = code === "died" || code === "secret_outcome_unknown";
    if (!isUnknown && NOTHING_DONE.includes(code) && request.type !== "rotate") return;
    if (request.type === "set") await this.#checkSet(request.payload, outcome, isUnknown);
    else if (request.type === "delete") await this.#checkDelete(request.payload.name, isUnknown);
    else if (request.type === "rotate") await this.#finishRotation(request, outcome);
    else if (!isUnknown) assert.deepEqual(outcome, this.#expected(request));
  }

  async #checkSet(payload: SetPayload, outcome: Outcome, isUnknown: boolean): Promise<void> {
    if (!isUnknown) {
      assert.deepEqual(plain(outcome), this.#expected({ type: "set", payload }));
      return;
    }
    const name = payload.name.trim();
    if (this.#model.refusal(payload) !== null) return;
    const { operationId, text } = payload;
    const resolved = await this.#unmodelled({ type: "resolve", payload: { name } });
    const stands = resolved.kind === "answer" && resolved.answer === text;
    if (operationId !== null) {
      const receipt = await this.#unmodelled({ type: "receipt", payload: { operationId } });
      const matches = { operationId, status: "applied", name, currentBindingMatches: true };
      const missing = {
        operationId,
        status: "not_found",
        name: null,
        currentBindingMatches: false,
      };
      assert.deepEqual(
        receipt,
        { kind: "answer", answer: stands ? matches : missing },
        "both or none",
      );
    }
    if (stands) this.#apply(payload);
    else assert.deepEqual(resolved, this.#expected({ type: "resolve", payload: { name } }));
  }

  #apply(payload: SetPayload): void {
    this.#model.apply(payload);
    if (payload.operationId !== null) this.#sets.set(payload.operationId, payload);
  }

  async #checkDelete(given: string, isUnknown: boolean): Promise<void> {
    const name = given.trim();
    if (isUnknown) {
      const exists = await this.#unmodelled({ type: "exists", payload: { name } });
      if (exists.kind === "answer" && exists.answer === true) {
        assert.include(this.#model.names(), name);
        return;
      }
    }
    this.#model.delete(name);
  }

  /** Until it was answered once: from then on everything is under the new key. */
  async #finishRotation(request: VaultRequest, first: Outcome): Promise<void> {
    const last = first.kind === "answer" ? first : await this.#unmodelled(request);
    assert.equal(last.kind, "answer", "rotate");
    this.rotations += 1;
    this.#model.rotate();
  }

  /** As `#settled`, for what the model does not know yet. */
  async #unmodelled(request: VaultRequest): Promise<Outcome> {
    for (;;) {
      const outcome = await this.#ask(request);
      if (outcome.kind === "died") await this.#follow();
      else if (outcome.kind === "answer" || outcome.code === "secret_not_found") return outcome;
      else assert.include([...NOTHING_DONE, "secret_outcome_unknown"], outcome.code);
    }
  }

  /** What the model answers, which has the change made by then. */
  #expected(request: VaultRequest): Outcome {
    const answer = (value: unknown): Outcome => ({ kind: "answer", answer: value });
    const model = this.#model;
    switch (request.type) {
      case "set": {
        const refusal = model.refusal(request.payload);
        if (refusal === null) this.#apply(request.payload);
        const isSet = refusal === null || refusal === "repeated";
        return isSet ? answer(null) : { kind: "refused", code: refusal };
      }
      case "delete":
        model.delete(request.payload.name);
        return answer({ name: request.payload.name.trim(), deleted: true });
      case "list":
        return answer({ names: model.names(), limit: 500, truncated: false });
      case "exists":
        return answer(model.value(request.payload.name) !== null);
      case "receipt":
        return answer(model.receipt(request.payload.operationId));
      case "resolve": {
        const value = model.value(request.payload.name);
        return value === null ? { kind: "refused", code: "secret_not_found" } : answer(value);
      }
      default:
        throw new Error(`the model has no answer to ${request.type}`);
    }
  }
}

/** Without what the model does not know: revision and times of a set. */
function plain(outcome: Outcome): Outcome {
  const isSet =
    outcome.kind === "answer" &&
    typeof outcome.answer === "object" &&
    outcome.answer !== null &&
    "metadata" in outcome.answer;
  return isSet ? { kind: "answer", answer: null } : outcome;
}

/** How many of these hexadecimal strings of 16 bytes stand somewhere in the files below a folder. */
function found(directory: string, wanted: ReadonlySet<string>): number {
  const beginnings = new Set([...wanted].map((hex) => Number.parseInt(hex.slice(0, 8), 16)));
  const met = new Set<string>();
  for (const entry of readdirSync(directory, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const bytes = readFileSync(join(entry.parentPath, entry.name));
    for (let at = 0; at + 16 <= bytes.length; at += 1) {
      if (!beginnings.has(bytes.readUInt32BE(at))) continue;
      const hex = bytes.toString("hex", at, at + 16);
      if (wanted.has(hex)) met.add(hex);
    }
  }
  return met.size;
}

describe("a vault over 10,000 random steps", function () {
  this.timeout(240_000);
  let bench: RecordBench;
  let notes: TempFolder;
  before(async () => {
    bench = await recordBench();
    notes = tempFolder();
  });
  after(async () => {
    await bench[Symbol.asyncDispose]();
    notes[Symbol.dispose]();
  });

  it("knows what its model knows, whenever it or its server is killed, and leaves nothing of what it forgot", async () => {
    const seed = 20_261_130;
    const sealed = join(notes.path, "sealed");
    await using history = new History(bench, sealed, seed);
    await history.begin();
    for (let step = 0; step < STEPS; step += 1) {
      try {
        await history.step();
      } catch (failure) {
        throw new Error(`step ${step} of seed ${seed}`, { cause: failure });
      }
    }
    await history.compare();
    await history.end();
    assert.isAbove(history.workerKills, 8);
    assert.isAbove(history.serverKills, 12);
    assert.isAbove(history.rotations, 20);
    const tails = new Set(readFileSync(sealed, "utf8").trim().split("\n"));
    assert.isAbove(tails.size, 2_500);
    assert.equal(found(bench.directory, tails), history.standing);
    assert.equal(bench.filesWith(Buffer.from(CANARY)), 0);
  });
});
