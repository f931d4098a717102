/**
 * Owns `${LEMON_SECRET:NAME}` in texts of this machine (profiles-and-runs.md): the one way from a vault to whoever
 * uses a value, inside this process.
 *
 * 1. Only the vault is asked: there is no environment and no other source, and `${ANYTHING_ELSE}` stays as it is.
 * 2. Every failure is the same `secret_resolution_failed`: it says neither which reference nor why.
 * 3. What is not handed over is overwritten.
 */
import { LemonError } from "../../protocol/errors.ts";
import { Secret } from "../../protocol/secret.ts";
import { secretName } from "../../protocol/secrets.ts";
import { VAULT_DEADLINE, type Vault } from "./asking.ts";

const BEGINNING = "${LEMON_SECRET";
const REFERENCE = /\$\{LEMON_SECRET:([^{}]*)\}/g;

/** A literal text, or the name of a secret. */
type Part = { readonly text: string } | { readonly name: string };

/** The text with each reference replaced by its value; the caller's to destroy. Errors: `secret_resolution_failed`. */
export async function resolveReferences(vault: Vault, text: string): Promise<Secret> {
  const values: Secret[] = [];
  try {
    for (const part of partsOf(text)) {
      values.push(
        "text" in part
          ? Secret.ofText(part.text)
          : await vault.ask("resolve", { name: part.name }, VAULT_DEADLINE),
      );
    }
    return joined(values);
  } catch {
    throw new LemonError("secret_resolution_failed");
  } finally {
    for (const value of values) value.destroy();
  }
}

/** Throws for a beginning without an end, and for a name that no secret can have. */
function partsOf(text: string): readonly Part[] {
  const parts: Part[] = [];
  let from = 0;
  for (const { 0: whole, 1: name = "", index } of text.matchAll(REFERENCE)) {
    parts.push(literal(text.slice(from, index)), { name: secretName.parse(name) });
    from = index + whole.length;
  }
  return [...parts, literal(text.slice(from))];
}

function literal(text: string): Part {
  if (text.includes(BEGINNING)) throw new LemonError("secret_resolution_failed");
  return { text };
}

function joined(values: readonly Secret[]): Secret {
  const length = values.reduce((sum, value) => sum + value.use((bytes) => bytes.length), 0);
  const whole = new Uint8Array(length);
  let at = 0;
  for (const value of values) {
    value.use((bytes) => {
      whole.set(bytes, at);
      at += bytes.length;
    });
  }
  return Secret.take(whole);
}
