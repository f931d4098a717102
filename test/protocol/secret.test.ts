import { format, inspect } from "node:util";
import { serialize } from "node:v8";
import { MessageChannel } from "node:worker_threads";
import { assert } from "chai";
import fc from "fast-check";
import pino from "pino";
import { Secret } from "../../protocol/secret.ts";
import { encode } from "../../transport/rpc/codec.ts";
import { codeOfThrow } from "../support/supervision.ts";

const CANARY = "canary-7f3a9c";
const secretOf = () => Secret.ofText(CANARY);
const bytesOf = (secret: Secret): Buffer => secret.use((bytes) => Buffer.from(bytes));

/** Every rendering of something that holds a secret. */
function renderings(held: unknown): string[] {
  const cause = new Error("wrapped", { cause: held });
  const thrown = Object.assign(new Error("with a member"), { held });
  return [
    inspect(held, { showHidden: true, depth: 9 }),
    format("%s %o %O %j", held, held, held, held),
    inspect(cause),
    inspect(thrown),
    JSON.stringify({ held }),
    JSON.stringify([held]),
    Buffer.from(encode({ held })).toString("latin1"),
    inspect(new Map([["held", held]])),
    inspect(Object.getOwnPropertyDescriptors(held)),
  ].map((shown) => shown.replaceAll(/^ +at .*$/gm, ""));
}

describe("a secret", () => {
  it("lends its bytes and gives none of them to any rendering", () => {
    const secret = secretOf();
    assert.equal(bytesOf(secret).toString(), CANARY);
    const shown = [
      ...renderings(secret),
      `${secret}`,
      String(secret),
      `a${secret.valueOf()}`,
      String(Object.entries(secret)),
      Object.prototype.toString.call(secret),
    ];
    for (const one of shown) {
      for (const form of ["utf8", "hex", "base64"] as const) {
        assert.notInclude(one, Buffer.from(CANARY).toString(form));
      }
      assert.notInclude(one, String([...Buffer.from(CANARY)]));
    }
    assert.equal(JSON.stringify({ secret }), '{"secret":"[Secret]"}');
    assert.equal(inspect([secret]), "[ [Secret] ]");
    assert.equal(`${secret}`, "[Secret]");
  });

  it("shows the same whatever it holds", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array(), (one, other) => {
        assert.deepEqual(renderings(Secret.take(one)), renderings(Secret.take(other)));
      }),
      { numRuns: 20 },
    );
  });

  it("is not cloned: neither by structuredClone nor towards a worker or another process", () => {
    const secret = secretOf();
    const { port1, port2 } = new MessageChannel();
    assert.throws(() => structuredClone(secret), /could not be cloned/);
    assert.throws(() => structuredClone({ deep: [secret] }), /could not be cloned/);
    assert.throws(() => port1.postMessage(secret), /could not be cloned/);
    assert.throws(() => serialize(secret), /could not be cloned/);
    port1.close();
    port2.close();
  });

  it("is a marker in a log, as a member and in a message", () => {
    const lines: string[] = [];
    const log = pino({}, { write: (line) => void lines.push(line) });
    const secret = secretOf();
    log.info(
      { secret, err: new Error("failed", { cause: secret }) },
      "with %s and %o",
      secret,
      secret,
    );
    assert.lengthOf(lines, 1);
    assert.include(lines[0], "[Secret]");
    assert.notInclude(lines[0], CANARY);
  });

  it("zeroes the bytes it was given, and its own when it is destroyed", () => {
    const given = Buffer.from(CANARY);
    const secret = Secret.take(given);
    assert.isTrue(given.every((byte) => byte === 0));
    const lent = secret.use((bytes) => bytes);
    assert.equal(Buffer.from(lent).toString(), CANARY);
    secret.destroy();
    assert.isTrue(lent.every((byte) => byte === 0));
    assert.isTrue(secret.isDestroyed);
    assert.equal(
      codeOfThrow(() => secret.use(() => {})),
      "secret_destroyed",
    );
    secret.destroy();
  });

  it("is destroyed at the end of the block that uses it", () => {
    let kept: Secret;
    {
      using secret = secretOf();
      kept = secret;
      assert.isFalse(kept.isDestroyed);
    }
    assert.isTrue(kept.isDestroyed);
  });

  it("shares its memory with nobody", () => {
    assert.equal(
      secretOf().use(({ buffer }) => buffer.byteLength),
      CANARY.length,
    );
  });
});
