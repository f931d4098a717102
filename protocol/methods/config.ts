/** Declares the control plane's settings (control-plane-wire.md 3.9). */
import { z } from "zod";
import { method } from "../method.ts";

const summary = z.looseObject({});

/** Set by nobody but the start: what clients may read of the build's own limits. */
export const FIXED_SETTINGS = ["maxPayload", "tickIntervalMs"] as const;

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Settings that are stored, and the bytes of all of them as JSON. */
export const CONFIG_BOUNDS = { settings: 256, bytes: 65_536 } as const;

const key = z
  .string()
  .regex(
    /^[A-Za-z][A-Za-z0-9_.-]{0,127}$/,
    "must be 1 to 128 of letters, digits, _, . and -, beginning with a letter",
  );

const configGet = method({
  name: "config.get",
  summary: "One setting, or all of them; what looks like a secret is never shown.",
  scopes: ["read"],
  effect: "read",
  params: z.object({ key: key.optional() }),
  result: z.looseObject({
    key: z
      .string()
      .optional()
      .describe("The one that was asked for; else every setting stands here by its name."),
    value: z.unknown().optional().describe("Null when it is not set."),
    logLevel: z.string().optional().describe("Of all settings: the level in force."),
    summary,
  }),
});

const configSet = method({
  name: "config.set",
  summary: "Stores one setting. Of those this build knows, `logLevel` takes effect at once.",
  scopes: ["admin"],
  effect: "mutation",
  retrySafe: true,
  params: z.object({
    key,
    value: z.unknown().refine((value) => value !== undefined && value !== null, "must not be null"),
  }),
  result: z.object({ key: z.string(), value: z.unknown(), success: z.literal(true), summary }),
});

const configPatch = method({
  name: "config.patch",
  summary: "Stores several settings, all of them or none.",
  scopes: ["admin"],
  effect: "mutation",
  retrySafe: true,
  params: z.object({ patch: z.record(key, z.unknown()) }),
  result: z.object({ success: z.literal(true), applied: z.array(z.string()), summary }),
});

const configSchema = method({
  name: "config.schema",
  summary: "The settings this build knows, as a JSON Schema.",
  scopes: ["read"],
  effect: "read",
  params: z.object({}),
  result: z.object({
    schema: z.object({ type: z.literal("object"), properties: z.record(z.string(), z.unknown()) }),
    summary,
  }),
});

export const CONFIG_METHODS = [configGet, configSet, configPatch, configSchema] as const;
