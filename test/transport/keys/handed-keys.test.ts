import { execFileSync } from "node:child_process";
import { mkdirSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { decode, encodeAccount, encodeUser, fmtCreds } from "@nats-io/jwt";
import {
  createAccount,
  createOperator,
  createUser,
  fromPublic,
  type KeyPair,
} from "@nats-io/nkeys";
import { expect } from "chai";
import { openCredentials, openOperatorKey } from "../../../transport/keys/handed-keys.ts";
import { seedOf } from "../../support/external-nats.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const NOW_MS = Date.UTC(2026, 10, 30);

describe("a file of keys that somebody hands us", () => {
  let folder: TempFolder;
  let path: string;
  let account: KeyPair;
  let user: KeyPair;

  beforeEach(() => {
    folder = tempFolder();
    path = join(folder.path, "handed");
    account = createAccount();
    user = createUser();
  });
  afterEach(() => folder[Symbol.dispose]());

  const credentialsOf = async (
    issuer = account,
    more: { exp?: number; issuer_account?: string } = {},
  ): Promise<string> => {
    const { exp, ...claims } = more;
    const jwt = await encodeUser("u", user, issuer, claims, exp === undefined ? {} : { exp });
    return new TextDecoder().decode(fmtCreds(jwt, user));
  };
  const write = (text: string): void => writeFileSync(path, text);

  describe("with credentials", () => {
    const open = (nowMs = NOW_MS) => openCredentials({ path, name: "--nats-creds" }, nowMs);
    /** What a connection shows of itself. */
    const shown = (credentials: ReturnType<typeof open>) => {
      const auth = credentials.authenticator("nonce");
      if (typeof auth !== "object" || !("jwt" in auth)) throw new Error("no JWT is shown");
      return auth;
    };

    it("proves its user to a server that gives a nonce", async () => {
      write(await credentialsOf());
      const { jwt, nkey, sig } = shown(open());
      expect(decode(jwt).sub).to.equal(user.getPublicKey());
      expect(nkey).to.equal(user.getPublicKey());
      const signature = Buffer.from(sig ?? "", "base64");
      expect(fromPublic(user.getPublicKey()).verify(Buffer.from("nonce"), signature)).to.equal(
        true,
      );
    });

    it("names the account, whether that or a signing key of it issued them", async () => {
      write(await credentialsOf());
      expect(open().account).to.equal(account.getPublicKey());
      write(await credentialsOf(createAccount(), { issuer_account: account.getPublicKey() }));
      expect(open().account).to.equal(account.getPublicKey());
    });

    it("is good until the second in which they expire, and not from it on", async () => {
      const exp = NOW_MS / 1_000 + 60;
      write(await credentialsOf(account, { exp }));
      expect(open(exp * 1_000 - 1).account).to.equal(account.getPublicKey());
      const refused = await refusalOf(() => open(exp * 1_000));
      expect(refused.message).to.match(/^--nats-creds holds credentials that have expired$/);
    });

    it("is read again for each connection, so that renewed ones take effect", async () => {
      write(await credentialsOf());
      const credentials = open();
      const first = shown(credentials).jwt;
      write(await credentialsOf(account, { exp: NOW_MS }));
      expect(shown(credentials).jwt).not.to.equal(first);
    });

    it("stays what it was while another account's, half a file or nothing stands there", async () => {
      write(await credentialsOf());
      const credentials = open();
      const first = shown(credentials).jwt;
      write(await credentialsOf(createAccount()));
      expect(shown(credentials).jwt, "another account's").to.equal(first);
      truncateSync(path, 100);
      expect(shown(credentials).jwt, "half a file").to.equal(first);
      rmSync(path);
      expect(shown(credentials).jwt, "nothing").to.equal(first);
    });

    it("may be a link to where a platform mounts it, and end without a newline", async () => {
      write((await credentialsOf()).trimEnd());
      renameSync(path, join(folder.path, "mounted"));
      symlinkSync("mounted", path);
      expect(open().account).to.equal(account.getPublicKey());
    });

    for (const [what, text] of [
      ["nothing in it", async () => ""],
      ["a seed alone", async () => `${seedOf(createUser())}\n`],
      ["an account's JWT", async () => await encodeAccount("A", createAccount(), {})],
      [
        "another user's seed",
        async () =>
          (await credentialsOf()).replace(/\bSU[A-Z2-7]{56}\b/, () => seedOf(createUser())),
      ],
      [
        "a seed with one character changed",
        async () =>
          (await credentialsOf()).replace(
            /\b(SU[A-Z2-7]{30})(.)/,
            (_, head, one) => head + (one === "A" ? "B" : "A"),
          ),
      ],
      [
        "the JWT of an operator's user",
        async () => (await credentialsOf()).replace(/eyJ[\w.-]+/, "eyJ0.eyJzdWIiOiJVIn0.c2ln"),
      ],
    ] as const) {
      it(`is refused with ${what}, and quoted by no error`, async () => {
        const content = await text();
        write(content);
        const refused = await refusalOf(open);
        expect([refused.code, refused.message]).to.deep.equal([
          "invalid_request",
          "--nats-creds holds no credentials of a NATS user (a JWT and its seed)",
        ]);
        expect(JSON.stringify(refused.details) + String(refused.cause)).not.to.match(
          /SU[A-Z2-7]{20}/,
        );
      });
    }

    it("is refused when it is not there, is a folder, a pipe, or too large", async () => {
      expect((await refusalOf(open)).message).to.match(/names a file that is not there/);
      mkdirSync(path);
      expect((await refusalOf(open)).message).to.match(/does not name a regular file/);
      rmSync(path, { recursive: true });
      execFileSync("mkfifo", [path]);
      expect((await refusalOf(open)).message).to.match(/does not name a regular file/);
      rmSync(path);
      const credentials = await credentialsOf();
      write(credentials.padEnd(65_536, "\n"));
      expect(open().account).to.equal(account.getPublicKey());
      write(credentials.padEnd(65_537, "\n"));
      expect((await refusalOf(open)).message).to.match(/too large/);
    });
  });

  describe("with an operator's seed", () => {
    const open = () => openOperatorKey({ path, name: "--nats-operator-key" }, "AXYZ");

    for (const [what, content] of [
      ["as nsc keeps it", (seed: string) => seed],
      ["with a newline", (seed: string) => `${seed}\n`],
      [
        "between lines that say what it is",
        (seed: string) => `-----BEGIN OPERATOR NKEY SEED-----\n${seed}\n------END-----\n`,
      ],
    ] as const) {
      it(`signs accounts and their deletion (${what})`, async () => {
        const operator = createOperator();
        write(content(seedOf(operator)));
        const { controllerAccount, signAccount, signDeletion } = open();
        expect(controllerAccount).to.equal("AXYZ");
        const node = createAccount().getPublicKey();
        const signed = decode(await signAccount("node", node, {}));
        expect([signed.iss, signed.sub]).to.deep.equal([operator.getPublicKey(), node]);
        const order = decode<{ accounts: string[] }>(await signDeletion([node]));
        expect([order.iss, order.sub]).to.deep.equal([
          operator.getPublicKey(),
          operator.getPublicKey(),
        ]);
        expect(order.nats.accounts).to.deep.equal([node]);
      });
    }

    for (const [what, text] of [
      ["nothing", () => ""],
      ["an account's seed", () => seedOf(createAccount())],
      ["an operator's public key", () => createOperator().getPublicKey()],
      ["a seed that lost a character", () => seedOf(createOperator()).slice(0, -1)],
      ["a seed with one character too many", () => `${seedOf(createOperator())}A`],
      [
        "a seed with one character changed",
        // Not the last one, of whose five bits only three count.
        () => seedOf(createOperator()).replace(/.(?=.$)/, (one) => (one === "A" ? "B" : "A")),
      ],
    ] as const) {
      it(`is refused with ${what} in it`, async () => {
        write(text());
        const refused = await refusalOf(open);
        expect([refused.code, refused.message]).to.deep.equal([
          "invalid_request",
          "--nats-operator-key holds no operator's seed (SO…)",
        ]);
      });
    }
  });
});
