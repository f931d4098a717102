/** Proves the node link on a NATS that is not ours, with its operator's key and without. */
import { join } from "node:path";
import { createUser } from "@nats-io/nkeys";
import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import { systemClock } from "../../../host/clock.ts";
import type { AccountSigner } from "../../../transport/keys/authority.ts";
import type { NoAuthority } from "../../../transport/link/accounts.ts";
import { type HubLink, openHubLink } from "../../../transport/link/hub.ts";
import { systemApi } from "../../../transport/link/system-api.ts";
import { createWorkerLife } from "../../../transport/link/worker-life.ts";
import { type ExternalNats, signerOf, startExternalNats } from "../../support/external-nats.ts";
import { logLines } from "../../support/log-lines.ts";
import { openRawLeaf } from "../../support/raw-leaf.ts";
import { refusalOf } from "../../support/refusal.ts";

const HOUR_MS = 3_600_000;

describe("the link to nodes on somebody else's NATS", () => {
  let nats: ExternalNats;
  let system: NatsConnection;
  let recordsFolder: string;
  const links: HubLink[] = [];

  beforeEach(async () => {
    nats = await startExternalNats();
    system = await nats.operator.connect(nats.server, "system");
    recordsFolder = join(nats.operator.folder, "accounts");
  });
  afterEach(async () => {
    for (const link of links.splice(0)) link.stop();
    await nats[Symbol.asyncDispose]();
  });

  const open = async (
    authority: AccountSigner | NoAuthority,
    withSystem: NatsConnection | null = system,
  ): Promise<HubLink> => {
    const link = await openHubLink({
      system: withSystem,
      authority,
      recordsFolder,
      keepsStores: false,
      clock: systemClock,
      log: logLines().log,
      onEvent: () => undefined,
      renewal: () => null,
    });
    links.push(link);
    return link;
  };
  const full = (): Promise<HubLink> => open(signerOf(nats.operator));
  const WHY = "No account can be changed on this NATS system: --nats-operator-key is not given";

  it("is let in with an account that its operator's key signed", async () => {
    const link = await full();
    const node = await link.provision();
    const life = createWorkerLife();
    const jwt = await link.issue(node, life.link.getPublicKey(), { expiresInMs: HOUR_MS });
    const leaf = { url: nats.websocketUrl, jwt, key: life.link, serverName: life.serverName };
    (await openRawLeaf(leaf)).close();
  });

  for (const [what, withSystem] of [
    ["the operator's key", true],
    ["the system account either", false],
  ] as const) {
    describe(`without ${what}`, () => {
      const less = (): Promise<HubLink> => open({ missing: WHY }, withSystem ? system : null);

      it("makes no account, says why, and leaves nothing behind", async () => {
        const link = await less();
        const refused = await refusalOf(() => link.provision());
        expect([refused.code, refused.message, refused.mutationMayHaveApplied]).to.deep.equal([
          "unavailable",
          WHY,
          false,
        ]);
        expect(link.nodes()).to.deep.equal([]);
        links.push(link);
        expect((await full()).nodes()).to.deep.equal([]);
      });

      it("goes on giving credentials to nodes whose account is there", async () => {
        const node = await (await full()).provision();
        const link = await less();
        const life = createWorkerLife();
        const jwt = await link.issue(node, life.link.getPublicKey(), { expiresInMs: HOUR_MS });
        const leaf = { url: nats.websocketUrl, jwt, key: life.link, serverName: life.serverName };
        (await openRawLeaf(leaf)).close();
      });

      for (const change of ["revoke", "remove"] as const) {
        it(`records what it can not tell the hub (${change}), and tells it with the key at the next start`, async () => {
          const before = await full();
          const node = await before.provision();
          before.stop();
          const userKey = createUser().getPublicKey();
          const link = await less();
          const refused = await refusalOf(() =>
            change === "revoke" ? link.revoke(node, [userKey]) : link.remove(node),
          );
          expect([refused.code, refused.mutationMayHaveApplied]).to.deep.equal([
            "unavailable",
            true,
          ]);
          expect(refused.message).to.equal(
            `It is recorded, and the hub is told once that is possible. ${WHY}`,
          );
          link.stop();
          const claims = (): Promise<unknown> => systemApi(system).accountClaims(node);
          const held = JSON.stringify(await claims());
          expect(held).not.to.contain(userKey);

          await full();
          if (change === "revoke") expect(JSON.stringify(await claims())).to.contain(userKey);
          else expect(await claims()).to.equal(null);
        });
      }
    });
  }
});
