import { expect } from "chai";
import fc from "fast-check";
import { isSecretName, redacted } from "../../protocol/redaction.ts";

const R = "[REDACTED]";
const CANARY = "c4n4ry";

describe("what is shown of a text", () => {
  it("has no secret in it, however it is named and written", () => {
    for (const [text, shown] of [
      [`OPENAI_API_KEY=${CANARY} next`, `OPENAI_API_KEY=${R} next`],
      [`?access_token=${CANARY}`, `?access_token=${R}`],
      [`api-key = ${CANARY}, then`, `api-key=${R}, then`],
      [`AWS_SECRET_ACCESS_KEY=${CANARY};x`, `AWS_SECRET_ACCESS_KEY=${R};x`],
      [`password: ${CANARY}\nuser: bob`, `password:${R}\nuser: bob`],
      [`if token == ${CANARY} or`, `if token==${R} or`],
      [`secret => ${CANARY}`, `secret=>${R}`],
      [`{"password":"${CANARY} \\" ${CANARY}","a":1}`, `{"password":"${R}","a":1}`],
      [`{'passphrase': '${CANARY}' }`, `{'passphrase':'${R}' }`],
      [`{\\"token\\": \\"${CANARY} \\\\\\" ${CANARY}\\",1}`, `{\\"token\\":\\"${R}\\",1}`],
      [`"password":"${CANARY}\\\\", "a":1`, `"password":"${R}", "a":1`],
      [`private_key="${CANARY} never closed`, `private_key="${R}"`],
      [`Authorization: Basic ${CANARY}\r\nHost: h`, `Authorization:${R}\r\nHost: h`],
      [`-H "Authorization: Basic ${CANARY}" h`, `-H "Authorization:${R}" h`],
      [`Set-Cookie: a=${CANARY}; b=${CANARY}\nx`, `Set-Cookie:${R}\nx`],
      [`auth_token: Bearer ${CANARY} x`, `auth_token:${R} x`],
      [`Bearer  ${CANARY} x`, `Bearer ${R} x`],
      [`https://u:${CANARY}@h/p?q=1`, `https://u:${R}@h/p?q=1`],
      [`redis://:${CANARY}@${CANARY}@h:1`, `redis://:${R}@h:1`],
      [`a -----BEGIN RSA PRIVATE KEY-----\n${CANARY}\n-----END RSA PRIVATE KEY----- b`, `a ${R} b`],
      [`private_key: -----BEGIN PRIVATE KEY-----\n${CANARY}`, `private_key:${R}`],
    ] as const) {
      expect(redacted(text), text).to.equal(shown);
      expect(redacted(shown), "again").to.equal(shown);
    }
  });

  it("is all of it when there is no secret in it", () => {
    for (const text of [
      "the token has expired, ask for another password",
      "max_tokens: 4096, tokens=12",
      '{"token_count":12}',
      "password=",
      "secret",
      "Bearer",
      "Basic usage: read this",
      "https://host:8443/a:b@c",
      "ssh://git@host/path",
      "mail bob@example.org: key = value",
      "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
      "keyboard: us, monkey=1, primary_key: id",
    ]) {
      expect(redacted(text), text).to.equal(text);
    }
  });

  it("is all of it in any value that has nothing of the kind", () => {
    const telling =
      /token|secret|passw|passphrase|key|credential|cookie|authorization|bearer|:\/\//i;
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const shown = JSON.stringify(redacted(value));
        const given = JSON.stringify(value);
        if (!telling.test(given)) expect(shown).to.equal(given);
      }),
    );
  });

  it("has no value that stands behind a secret's name, whatever is around it", () => {
    const around = fc.string({ maxLength: 20 }).map((text) => text.replace(/["'\\]/g, "."));
    const name = fc.constantFrom("api_key", "DB_PASSWORD", "apiKey", "my-secret", "credentials");
    const given = fc.tuple(around, name, fc.constantFrom("=", ": ", " = ", '":"'), around);
    fc.assert(
      fc.property(given, ([before, named, sign, after]) => {
        expect(redacted(`${before} "${named}${sign}${CANARY} ${after}`)).not.to.contain(CANARY);
      }),
    );
  });

  it("is known at once when it is long, however it is made", () => {
    for (const part of [
      "token",
      "token \\",
      'token"',
      "token=\\",
      'secret:"',
      "private key",
      "Bearer  ",
      "Authorization: Basic ",
      "://a:",
      "://a:@",
      "-----BEGIN PRIVATE KEY-----",
      "-----BEGIN ",
      "password = 'x\\'",
      "a_",
      "token = ",
      "api_key=",
      "secret",
      " ",
      "credential \t",
    ]) {
      expect(redacted(part.repeat(200_000))).to.be.a("string");
      expect(redacted(`${part}${" ".repeat(1_000_000)}x`)).to.be.a("string");
      expect(redacted(`${part}${"\\".repeat(1_000_000)}x`)).to.be.a("string");
    }
  });
});

describe("the name of a fact", () => {
  it("says whether it is a secret", () => {
    const secrets = [
      "private_key",
      "privateKey",
      "OPENAI_API_KEY",
      "x-api-key",
      "dbPasswd",
      "Authorization",
      "access_token",
      "Cookie",
    ];
    const others = ["key", "publicKey", "primary_key", "author", "keyboard", "pass", "logLevel"];
    expect(secrets.filter((name) => !isSecretName(name))).to.deep.equal([]);
    expect(others.filter(isSecretName)).to.deep.equal([]);
  });
});
