/** Proves what a NATS that is not ours has to have before nodes are served through it. */
import { encodeAccount, encodeGeneric } from "@nats-io/jwt";
import { createAccount, createOperator } from "@nats-io/nkeys";
import { expect } from "chai";
import fc from "fast-check";
import type { AccountSigner } from "../../../transport/keys/authority.ts";
import { controllerAccount } from "../../../transport/keys/claims.ts";
import { type SystemApi, systemApi } from "../../../transport/link/system-api.ts";
import {
  lacksOfAccount,
  lacksOfAuthority,
  lacksOfClaims,
  lacksOfClocks,
  lacksOfServers,
  refuseOldServers,
  systemServers,
} from "../../../transport/link/vetting.ts";
import {
  type ExternalNats,
  memoryResolver,
  type NatsOperator,
  signerOf,
  startExternalNats,
} from "../../support/external-nats.ts";
import { refusalOf } from "../../support/refusal.ts";

const KEY_FLAG = "--nats-operator-key";

describe("what somebody else's NATS has to have for nodes", () => {
  describe("in the controller's account", () => {
    it("is room for 8 MiB in one message", () => {
      const limited = (payload: number) =>
        lacksOfClaims({ ...controllerAccount(), limits: { payload } });
      expect(limited(8_388_608)).to.deep.equal([]);
      expect(limited(-1)).to.deep.equal([]);
      expect(limited(8_388_607)).to.deep.equal([
        "the controller's account has payload limit 8388607, and nodes need 8388608",
      ]);
      expect(limited(0)).to.have.length(1);
    });

    const full = controllerAccount().exports ?? [];

    it("is nothing more than what lemon's own account says, whatever else is exported", () => {
      expect(lacksOfClaims(controllerAccount())).to.deep.equal([]);
      const more = { name: "x", subject: "x.>", type: "stream" };
      expect(lacksOfClaims({ exports: [more, ...full, more] })).to.deep.equal([]);
    });

    it("is named one by one where it is missing", () => {
      const stream =
        "the controller's account does not export the stream node.*.> with account_token_position 2";
      const service =
        "the controller's account does not export the service ctl.*.> with account_token_position 2";
      expect(lacksOfClaims({ exports: full.slice(1) })).to.deep.equal([stream]);
      expect(lacksOfClaims({ exports: full.slice(0, 1) })).to.deep.equal([service]);
      for (const claims of [{}, { exports: null }, { exports: [null, 1, "x"] }, null, "x"]) {
        expect(lacksOfClaims(claims)).to.deep.equal([stream, service]);
      }
    });

    it("is missing when any part of an export is another", () => {
      const changes: readonly Readonly<Record<string, unknown>>[] = [
        { subject: "node.>" },
        { subject: "ctl.*.*" },
        { type: "service" },
        { type: "stream" },
        { account_token_position: 1 },
        { account_token_position: undefined },
        { token_req: true },
      ];
      fc.assert(
        fc.property(fc.constantFrom(0, 1), fc.constantFrom(...changes), (index, change) => {
          const exports = full.map((one, at) => (at === index ? { ...one, ...change } : one));
          const [name, value] = Object.entries(change)[0] ?? [];
          const same = Reflect.get(full[index] ?? {}, name ?? "") === value;
          expect(lacksOfClaims({ exports })).to.have.length(same ? 0 : 1);
        }),
      );
    });
  });

  it("is a server of the floor's version each", async () => {
    const servers = ["2.12.7", "2.15.0", "2.12.6", "2.11.16"].map((version, index) => ({
      name: `s${index}`,
      version,
      maxPayloadBytes: 0,
      jetStreamPeers: 1,
      clockMs: null,
    }));
    refuseOldServers(servers.slice(0, 2));
    const refused = await refusalOf(() => refuseOldServers(servers));
    expect([refused.code, refused.message]).to.deep.equal([
      "nats_server_too_old",
      "The NATS server s2 runs 2.12.6; lemon needs at least 2.12.7 on every server",
    ]);
    const unknown = { name: "", version: "", maxPayloadBytes: 0, jetStreamPeers: 1, clockMs: null };
    expect((await refusalOf(() => refuseOldServers([unknown]))).code).to.equal(
      "nats_server_too_old",
    );
  });

  it("is room for 8 MiB in one message", () => {
    const server = { name: "s1", version: "2.15.0", jetStreamPeers: 1, clockMs: null };
    expect(lacksOfServers([{ ...server, maxPayloadBytes: 8_388_608 }])).to.deep.equal([]);
    expect(lacksOfServers([{ ...server, maxPayloadBytes: 8_388_607 }])).to.deep.equal([
      "the NATS server s1 has max_payload 8388607, and nodes need 8388608",
    ]);
  });

  it("is a clock within five minutes of the controller's, by which credentials end", () => {
    const nowMs = 1_000_000;
    const at = (aheadMs: number | null) =>
      lacksOfClocks(
        [
          {
            name: "s1",
            version: "2.15.0",
            maxPayloadBytes: 0,
            jetStreamPeers: 1,
            clockMs: aheadMs === null ? null : nowMs + aheadMs,
          },
        ],
        nowMs,
      );
    for (const fine of [null, 0, 300_000, -300_000]) expect(at(fine)).to.deep.equal([]);
    expect(at(300_001)).to.deep.equal([
      "the clock of the NATS server s1 is 5 minutes ahead of the controller's",
    ]);
    expect(at(-7_200_000)).to.deep.equal([
      "the clock of the NATS server s1 is 120 minutes behind the controller's",
    ]);
  });

  describe("asked of a real one", () => {
    let nats: ExternalNats | null = null;
    afterEach(() => nats?.[Symbol.asyncDispose]());

    const start = async (
      options: Parameters<typeof startExternalNats>[0] = {},
      as: "system" | "controller" = "system",
    ): Promise<{ api: SystemApi; operator: NatsOperator }> => {
      nats = await startExternalNats(options);
      const { operator, server } = nats;
      return { api: systemApi(await operator.connect(server, as)), operator };
    };
    it("lacks nothing when it is prepared, and is not changed by the question", async () => {
      const { api, operator } = await start();
      expect(await lacksOfAccount(api, operator.controllerAccount)).to.deep.equal([]);
      expect(await lacksOfAuthority(api, signerOf(operator), KEY_FLAG)).to.deep.equal([]);
      const servers = await systemServers(api, "--nats-sys-creds");
      expect(lacksOfServers(servers)).to.deep.equal([]);
      expect(lacksOfClocks(servers, Date.now())).to.deep.equal([]);
      expect(lacksOfClocks(servers, Date.now() - 3_600_000)).to.have.length(1);
      expect((await api.servers()).map(({ jetStreamPeers }) => jetStreamPeers)).to.deep.equal([1]);
      expect(await api.accountClaims(operator.controllerAccount)).not.to.equal(null);
      expect(await api.accountClaims(operator.systemAccount)).not.to.equal(null);
    });

    it("lacks its exports when the account is a plain one", async () => {
      const { api, operator } = await start({ claims: { limits: { conn: -1, subs: -1 } } });
      expect(await lacksOfAccount(api, operator.controllerAccount)).to.have.length(2);
    });

    it("refuses another operator's key, whose accounts it would take and let nobody use", async () => {
      const { api, operator } = await start();
      const other = createOperator();
      const signer: AccountSigner = {
        controllerAccount: operator.controllerAccount,
        signAccount: (name, key, claims) => encodeAccount(name, key, claims, { signer: other }),
        signDeletion: (accounts) => encodeGeneric("delete", other, "generic", { accounts }),
      };
      const refused = await refusalOf(() => lacksOfAuthority(api, signer, KEY_FLAG));
      expect([refused.code, refused.message]).to.deep.equal([
        "invalid_request",
        "--nats-operator-key is no key of the operator of this NATS system",
      ]);
      const key = createAccount().getPublicKey();
      await api.updateAccount(await signer.signAccount("node", key, {}));
    });

    it("says when it lets no account be deleted", async () => {
      const { api, operator } = await start({
        configure: (config) => config.replace("allow_delete: true", "allow_delete: false"),
      });
      expect(await lacksOfAuthority(api, signerOf(operator), KEY_FLAG)).to.deep.equal([
        "the NATS servers do not let accounts be deleted (resolver allow_delete: true)",
      ]);
    });

    it("says when its accounts stand in its configuration", async () => {
      const { api, operator } = await start({ configure: memoryResolver });
      const lacks = ["the NATS servers keep no accounts that can be changed (resolver type: full)"];
      expect(await lacksOfAuthority(api, signerOf(operator), KEY_FLAG)).to.deep.equal(lacks);
      expect(await lacksOfAccount(api, operator.controllerAccount)).to.deep.equal(lacks);
    });

    it("refuses credentials that are not its system account's", async () => {
      const { api } = await start({}, "controller");
      const refused = await refusalOf(() => systemServers(api, "--nats-sys-creds"));
      expect([refused.code, refused.message]).to.deep.equal([
        "invalid_request",
        "--nats-sys-creds holds credentials of another account than the system account",
      ]);
    });
  });
});
