/** Owns what must not be shown of facts that others told us (control-plane-wire.md 3). */

const SECRET_NAME = /token|secret|password|api_?key|credential|cookie/i;
const SECRET_VALUE =
  /\b(api_key|token|secret|password|private_key|credential)(\s*=\s*)[^\s,;]+|\b(Bearer )\S+/gi;
const REDACTED = { redacted: true, kind: "secret" } as const;

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** A copy of plain JSON without what looks like a secret, by its name or inside a text. */
export function redacted(value: unknown): unknown {
  if (typeof value === "string") {
    return value.replace(SECRET_VALUE, (_found, name?: string, equals?: string, bearer?: string) =>
      bearer === undefined ? `${name}${equals?.trim()}[REDACTED]` : `${bearer}[REDACTED]`,
    );
  }
  if (Array.isArray(value)) return value.map(redacted);
  if (typeof value !== "object" || value === null) return value;
  return redactedMap(value as Readonly<Record<string, unknown>>);
}

export function redactedMap(map: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(map).map(([name, value]) => [
      name,
      isSecretName(name) ? REDACTED : redacted(value),
    ]),
  );
}
