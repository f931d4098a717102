/**
 * Owns the durable settings of a control plane: one document, changed as a whole.
 *
 * 1. A change is stored before it is in force and before it is acknowledged.
 * 2. Changes take turns, and none is lost: each is made from what the last one stored.
 * 3. At a start the environment wins over what is stored; later changes win over both until the next one.
 */
import { z } from "zod";
import { LemonError } from "../../protocol/errors.ts";
import {
  CONFIG_BOUNDS,
  FIXED_SETTINGS,
  LOG_LEVELS,
  type LogLevel,
} from "../../protocol/methods/config.ts";
import type { ActorSpec } from "../../supervision/actor.ts";
import type { Document, Documents, DocumentsOptions } from "../../transport/documents.ts";

export type Settings = Readonly<Record<string, unknown>>;

export type SettingsProtocol = {
  read: (nothing: null) => Settings;
  /** Errors: `invalid_params`, and those of `Documents`. */
  change: (settings: Settings) => Settings;
};

/** Where the settings lie: for `openDocuments`, with the controller's connection. */
export const SETTINGS_DOCUMENTS: Pick<DocumentsOptions<Settings>, "bucket" | "parse"> = {
  bucket: "lemon-config",
  parse: (stored) => z.record(z.string(), z.unknown()).parse(stored),
};

export interface SettingsOptions {
  readonly documents: Documents<Settings>;
  /** Puts a level in force. */
  readonly setLogLevel: (level: LogLevel) => void;
  /** Whether whoever started the control plane chose a level: then a stored one waits for a change. */
  readonly logLevelIsChosen: boolean;
}

/** The only key of the bucket. */
const KEY = "settings";
/** The answer to `config.get` has members of its own beside the settings. */
const RESERVED: readonly string[] = [...FIXED_SETTINGS, "key", "value", "summary"];

export function settingsSpec(options: SettingsOptions): ActorSpec<SettingsProtocol> {
  const { documents, setLogLevel, logLevelIsChosen } = options;
  return {
    id: "settings",
    kind: "settings",
    restart: "permanent",
    async start() {
      let document: Document<Settings> | null = await documents.get(KEY);
      const inForce = (settings: Settings): void => {
        const level = levelIn(settings);
        if (level !== null) setLogLevel(level);
      };
      if (document !== null && !logLevelIsChosen) inForce(document.value);
      return {
        handlers: {
          read: () => document?.value ?? {},
          async change(settings) {
            refuseUnusable(settings);
            // What an earlier change without an answer left there counts.
            document = await documents.get(KEY);
            const value = { ...document?.value, ...settings };
            refuseTooMuch(value);
            document =
              document === null
                ? await documents.create(KEY, value)
                : await documents.update(document, value);
            inForce(settings);
            return value;
          },
        },
      };
    },
  };
}

function levelIn(settings: Settings): LogLevel | null {
  return LOG_LEVELS.find((level) => level === settings["logLevel"]) ?? null;
}

function refuseUnusable(settings: Settings): void {
  for (const [key, value] of Object.entries(settings)) {
    if (RESERVED.includes(key)) throw refusal(`${key}: can not be changed`);
    if (value === null || value === undefined) throw refusal(`${key}: must not be null`);
  }
  if ("logLevel" in settings && levelIn(settings) === null) {
    throw refusal(`logLevel: must be one of ${LOG_LEVELS.join(", ")}`);
  }
}

function refuseTooMuch(settings: Settings): void {
  const { settings: most, bytes } = CONFIG_BOUNDS;
  if (Object.keys(settings).length > most) throw refusal(`at most ${most} settings are kept`);
  if (Buffer.byteLength(JSON.stringify(settings), "utf8") > bytes)
    throw new LemonError("too_large");
}

function refusal(reason: string): LemonError {
  return new LemonError("invalid_params", { message: `Invalid params: ${reason}` });
}
