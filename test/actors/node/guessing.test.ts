/** Proves, over real sockets, how often one address may guess, and ask for a pairing. */
import { expect } from "chai";
import {
  CHALLENGE_ATTEMPTS,
  CODE_ATTEMPTS,
  PAIRING_ATTEMPTS,
} from "../../../actors/node/enrolment-methods.ts";
import { Attempts } from "../../../actors/session/attempts.ts";
import {
  authenticator,
  GUESSABLE_BELOW_LENGTH,
  TOKEN_ATTEMPTS,
  withTokenAttempts,
} from "../../../actors/session/authenticate.ts";
import { NodeDoor } from "../../support/node-door.ts";
import { refusalOf } from "../../support/refusal.ts";
import { operator, WsClient } from "../../support/ws-client.ts";

const UNAUTHORIZED = "UNAUTHORIZED";
const RATE_LIMITED = "RATE_LIMITED";

describe("an address that guesses", () => {
  let door: NodeDoor;

  beforeEach(async () => {
    door = await NodeDoor.open();
  });
  afterEach(() => door.close());

  const greet = (client: WsClient, token: unknown) => client.call("connect", { auth: { token } });
  const open = (options = {}) => WsClient.open(door.gateway.url, options);

  describe("tokens", () => {
    const { burst, refillMs } = TOKEN_ATTEMPTS;

    /** Fails as often as it may. */
    async function exhaust(client: WsClient): Promise<void> {
      for (let n = 0; n < burst; n += 1) {
        expect((await greet(client, `wrong-${n}`)).error?.code).to.equal(UNAUTHORIZED);
      }
    }

    it("is told to wait once it has failed too often, on whatever connection", async () => {
      await exhaust(await open());
      const other = await open();
      const { error } = await greet(other, "wrong");
      expect(error?.code).to.equal(RATE_LIMITED);
      expect(error?.details).to.deep.include({ code: "rate_limited", retryAfterMs: refillMs });
      await door.clock.advance(refillMs - 1);
      expect((await greet(other, "wrong")).error?.code).to.equal(RATE_LIMITED);
      await door.clock.advance(1);
      expect((await greet(other, "wrong")).error?.code).to.equal(UNAUTHORIZED);
      expect((await greet(other, "wrong")).error?.code).to.equal(RATE_LIMITED);
    });

    it("keeps nobody behind it out who has the right one", async () => {
      const { token } = await door.pair("browser-1");
      await exhaust(await open());
      expect((await (await open()).call("connect", operator()))["type"]).to.equal("hello-ok");
      expect((await greet(await open(), token))["type"]).to.equal("hello-ok");
    });

    it("is refused unheard, also with the right one, where an operator's token might be guessed", async () => {
      const guessable = "x".repeat(GUESSABLE_BELOW_LENGTH - 1);
      for (const [operatorToken, heard] of [
        [guessable, false],
        [`${guessable}x`, true],
      ] as const) {
        const authenticate = withTokenAttempts(
          authenticator({
            operatorToken,
            sessionTokens: { identify: async () => null },
            allowUnauthenticatedLoopback: false,
          }),
          new Attempts(door.clock, TOKEN_ATTEMPTS),
          { operatorToken },
        );
        const offer = (token: string) =>
          authenticate({
            token,
            role: null,
            clientId: null,
            remoteAddress: "192.0.2.1",
            directLoopback: false,
          });
        for (let n = 0; n < burst; n += 1) await refusalOf(() => offer("wrong"));
        if (heard) expect(await offer(operatorToken)).to.include({ role: "operator" });
        else expect((await refusalOf(() => offer(operatorToken))).code).to.equal("rate_limited");
      }
    });

    it("is let through no more often when it guesses on many connections at once", async () => {
      const clients = await Promise.all(Array.from({ length: burst + 30 }, () => open()));
      const answers = await Promise.all(clients.map((client, n) => greet(client, `wrong-${n}`)));
      const codes = answers.map(({ error }) => error?.code);
      expect(codes.filter((code) => code === UNAUTHORIZED)).to.have.length(burst);
      expect(codes.filter((code) => code === RATE_LIMITED)).to.have.length(30);
    });

    it("is no address of many honest clients, which come all at once", async () => {
      const { token } = await door.pair("browser-1");
      const clients = await Promise.all(Array.from({ length: 100 }, () => open()));
      const answers = await Promise.all(
        clients.map((client, n) =>
          n % 2 === 0 ? client.call("connect", operator()) : greet(client, token),
        ),
      );
      expect(new Set(answers.map((answer) => answer["type"]))).to.deep.equal(new Set(["hello-ok"]));
    });

    it("is not one that offers none: lemon's older clients connect so again and again", async () => {
      const client = await open();
      for (let n = 0; n <= burst; n += 1) {
        const { error } = await client.call("connect", { role: "node" });
        expect(error?.code).to.equal(UNAUTHORIZED);
      }
    });

    it("leaves the others alone", async () => {
      const client = await open();
      for (let n = 0; n <= burst; n += 1) await greet(client, "wrong");
      // All of 127/8 is this machine, but not on every system.
      const other = await open({ localAddress: "127.0.0.2" }).catch(() => null);
      if (other === null) return;
      expect((await other.call("connect", operator()))["type"]).to.equal("hello-ok");
    });
  });

  it("pairing codes is refused for a while; right ones cost nothing", async () => {
    const { burst, refillMs } = CODE_ATTEMPTS;
    const party = await door.operator();
    const { code } = await party.call("node.pair.request", { nodeType: "t", nodeName: "n" });
    const verify = (guess: string) => party.answer("node.pair.verify", { code: guess });
    for (let n = 0; n < burst; n += 1) {
      expect((await verify("no code")).error?.code).to.equal("NOT_FOUND");
      if (n < burst - 1) expect((await verify(code)).ok).to.equal(true);
    }
    const { error } = await verify(code);
    expect(error?.code).to.equal(RATE_LIMITED);
    expect(error?.details).to.deep.include({ retryAfterMs: refillMs });
    await door.clock.advance(refillMs);
    expect((await verify(code)).ok).to.equal(true);
  });

  it("challenges is told to wait, and keeps nobody out who has the right one", async () => {
    const { burst, refillMs } = CHALLENGE_ATTEMPTS;
    const party = await door.operator();
    const redeem = (challenge: string) => party.answer("connect.challenge", { challenge });
    const asked = await party.call("device.pair.request", { deviceType: "t", deviceName: "n" });
    for (let n = 0; n < burst; n += 1) {
      expect((await redeem(`wrong-${n}`)).error?.code).to.equal(UNAUTHORIZED);
    }
    const { error } = await redeem("wrong");
    expect(error?.code).to.equal(RATE_LIMITED);
    expect(error?.details).to.deep.include({ retryAfterMs: refillMs });
    const { challengeToken } = await party.call("device.pair.approve", asked);
    expect((await redeem(challengeToken)).ok).to.equal(true);
    await door.clock.advance(refillMs);
    expect((await redeem("wrong")).error?.code).to.equal(UNAUTHORIZED);
  });

  it("nothing, but asks for too many pairings, is refused for a while", async () => {
    const { burst, refillMs } = PAIRING_ATTEMPTS;
    const party = await door.operator();
    for (const [method, params] of [
      ["node.pair.request", { nodeType: "t", nodeName: "n" }],
      ["device.pair.request", { deviceType: "t", deviceName: "n" }],
    ] as const) {
      for (let n = 0; n < burst; n += 1) await party.call(method, params);
      const { code, details } = await party.refusal(method, params);
      expect(code).to.equal(RATE_LIMITED);
      expect(details).to.deep.include({ retryAfterMs: refillMs, mutationMayHaveApplied: false });
      await door.clock.advance(refillMs);
      await party.call(method, params);
    }
  });
});
