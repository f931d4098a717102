/** Proves over any order of pairings, revocations, faults of the store and restarts what a token is worth. */
import { expect } from "chai";
import fc from "fast-check";
import { DeviceDoor } from "../../support/device-door.ts";
import type { Party } from "../../support/party.ts";

const STEPS = [
  "approve",
  "approve again",
  "redeem",
  "connect",
  "revoke",
  "store refuses",
  "store answers nothing, did it",
  "store answers nothing, not yet",
  "what was on its way lands",
  "a second passes",
  "restart",
] as const;
type Step = (typeof STEPS)[number];

/** A device as those who were answered know it. */
interface Known {
  readonly deviceId: string;
  readonly pairingId: string;
  challenge: string | null;
  token: string | null;
  readonly voidTokens: string[];
  parties: Party[];
  /** `unsure`: an answer said that something may have happened. */
  is: "paired" | "revoked" | "unsure";
}

class Model {
  #devices: DeviceDoor;
  readonly #known: Known[] = [];

  constructor(devices: DeviceDoor) {
    this.#devices = devices;
  }

  async take(step: Step, pick: number): Promise<void> {
    const { documents, door } = this.#devices;
    const known = this.#known[pick % Math.max(1, this.#known.length)];
    switch (step) {
      case "approve":
        return await this.#approve();
      case "store refuses":
        return void documents.writeFaults.push({ kind: "refused" });
      case "store answers nothing, did it":
        return void documents.writeFaults.push({ kind: "lost", applied: true });
      case "store answers nothing, not yet":
        return void documents.writeFaults.push({ kind: "lost", applied: false });
      case "what was on its way lands":
        return documents.landGhosts();
      case "a second passes":
        return await door.clock.advance(1_000);
      case "restart":
        return await this.#restart();
      default:
        if (known !== undefined) await this.#with(known, step);
    }
  }

  /** The store is well again, and whatever was open is settled. */
  async expectTruth(): Promise<void> {
    const { documents, door } = this.#devices;
    documents.writeFaults.length = 0;
    documents.landGhosts();
    await door.clock.advance(60_000);
    documents.landGhosts();
    await this.#restart();
    const listed = await this.#devices.listed();
    for (const { deviceId, is, token, voidTokens } of this.#known) {
      for (const spent of voidTokens) expect(await this.#opens(spent)).to.equal(false);
      if (is === "unsure") continue;
      const holds = is === "paired" && token !== null;
      expect(listed.includes(deviceId)).to.equal(holds);
      if (token !== null) expect(await this.#opens(token)).to.equal(holds);
    }
  }

  async close(): Promise<void> {
    await this.#devices.close();
  }

  async #approve(): Promise<void> {
    const { deviceId, pairingId, challengeToken: challenge } = await this.#devices.approve();
    const begun = { token: null, voidTokens: [], parties: [], is: "paired" } as const;
    this.#known.push({ deviceId, pairingId, challenge, ...begun, voidTokens: [], parties: [] });
  }

  async #with(known: Known, step: Step): Promise<void> {
    const { admin } = this.#devices;
    const { deviceId, pairingId } = known;
    if (step === "approve again") {
      const { ok, payload } = await admin.answer("device.pair.approve", { pairingId });
      if (known.is === "revoked") expect(ok).to.equal(false);
      if (ok === true) known.challenge = String(Object(payload).challengeToken);
    } else if (step === "redeem" && known.challenge !== null) {
      const { challenge } = known;
      const answer = await admin.answer("connect.challenge", { challenge });
      if (known.is === "revoked") expect(answer.ok).to.equal(false);
      if (answer.ok === true) {
        known.challenge = null;
        known.is = "paired";
        this.#replace(known, String(Object(answer.payload).token));
        await this.#expectEnded(known);
      } else if (answer.error?.details?.["mutationMayHaveApplied"] === true) {
        known.challenge = null;
        await this.#expectEnded(known);
        known.is = "unsure";
      }
    } else if (step === "connect" && known.token !== null) {
      if (known.is === "paired") known.parties.push(await this.#devices.connect(known.token));
      else if (known.is === "revoked") expect(await this.#opens(known.token)).to.equal(false);
    } else if (step === "revoke") {
      const answer = await admin.answer("device.revoke", { deviceId });
      if (answer.ok === true) {
        known.is = "revoked";
        if (known.token !== null) known.voidTokens.push(known.token);
        await this.#expectEnded(known);
      } else if (answer.error?.details?.["mutationMayHaveApplied"] === true) {
        if (known.is !== "revoked") known.is = "unsure";
        await this.#expectEnded(known);
        if (known.token !== null) expect(await this.#opens(known.token)).to.equal(false);
      }
    }
    for (const party of known.parties) expect((await party.answer("health")).ok).to.equal(true);
  }

  #replace(known: Known, token: string): void {
    if (known.token !== null) known.voidTokens.push(known.token);
    known.token = token;
  }

  async #expectEnded(known: Known): Promise<void> {
    for (const { client } of known.parties.splice(0)) {
      expect((await client.closed()).code).to.be.oneOf([4001, 4003]);
    }
  }

  async #restart(): Promise<void> {
    this.#devices = await this.#devices.restart();
    for (const known of this.#known) {
      known.parties = [];
      known.challenge = null;
    }
  }

  async #opens(token: string): Promise<boolean> {
    // Wrong ones are rationed.
    await this.#devices.door.clock.advance(1_000);
    return (await this.#devices.greet(token))["type"] === "hello-ok";
  }
}

describe("a device, in whatever order things happen to it,", () => {
  it("is let in by its newest token alone, and never again once its revocation was answered", async () => {
    const step = fc.oneof(
      fc.constantFrom(...STEPS),
      fc.constantFrom<Step[]>("approve again", "redeem", "connect", "revoke"),
    );
    const steps = fc.array(fc.tuple(step, fc.nat(2)), {
      minLength: 10,
      maxLength: 30,
      size: "max",
    });
    await fc.assert(
      fc.asyncProperty(steps, async (taken) => {
        const model = new Model(await DeviceDoor.open());
        try {
          for (const what of ["approve", "redeem", "connect"] as const) await model.take(what, 0);
          for (const [what, pick] of taken) await model.take(what, pick);
          await model.expectTruth();
        } finally {
          await model.close();
        }
      }),
      { numRuns: 80 },
    );
  });
});
