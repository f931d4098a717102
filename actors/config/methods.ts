/** Owns the methods about a control plane's settings (control-plane-wire.md 3.9). */
import type { Policy } from "../../protocol/frames.ts";
import { LOG_LEVELS } from "../../protocol/methods/config.ts";
import { isSecretName, redactedMap } from "../../protocol/redaction.ts";
import type { ActorRef } from "../../supervision/actor.ts";
import type { MethodHandlers } from "../session/handler.ts";
import type { Settings, SettingsProtocol } from "./settings.ts";

type ConfigMethod = "config.get" | "config.set" | "config.patch" | "config.schema";

export interface ConfigMethodsOptions {
  readonly settings: ActorRef<SettingsProtocol>;
  readonly policy: Policy;
  /** The level in force. */
  readonly logLevel: () => string;
}

/** A change waits for the store; below a method's 30 s. */
const DEADLINE = { deadlineMs: 25_000 } as const;

export function configMethods(options: ConfigMethodsOptions): MethodHandlers<ConfigMethod> {
  const { settings, policy, logLevel } = options;
  const { maxPayload, tickIntervalMs } = policy;

  const all = async (): Promise<Settings> => ({
    ...(await settings.ask("read", null, DEADLINE)),
    logLevel: logLevel(),
    maxPayload,
    tickIntervalMs,
  });

  return {
    async "config.get"({ key }) {
      const values = await all();
      if (key === undefined) {
        return {
          ...redactedMap(values),
          logLevel: logLevel(),
          summary: {
            keyCount: Object.keys(values).length,
            sensitiveCount: Object.keys(values).filter(isSecretName).length,
          },
        };
      }
      const found = Object.hasOwn(values, key);
      const sensitive = isSecretName(key);
      return {
        key,
        value: found ? shownOf(key, values[key]) : null,
        summary: { requestedKey: key, found, sensitive, valueReturned: found && !sensitive },
      };
    },

    async "config.set"({ key, value }) {
      await settings.ask("change", { [key]: value }, DEADLINE);
      return {
        key,
        value: shownOf(key, value),
        success: true,
        summary: { key, sensitive: isSecretName(key) },
      };
    },

    async "config.patch"({ patch }) {
      await settings.ask("change", patch, DEADLINE);
      const applied = Object.keys(patch).sort();
      return { success: true, applied, summary: { appliedCount: applied.length } };
    },

    "config.schema"() {
      const properties = {
        logLevel: { type: "string", enum: [...LOG_LEVELS] },
        maxPayload: { type: "integer", const: maxPayload, readOnly: true },
        tickIntervalMs: { type: "integer", const: tickIntervalMs, readOnly: true },
      };
      return {
        schema: { type: "object", properties },
        summary: { propertyCount: Object.keys(properties).length },
      };
    },
  };
}

function shownOf(name: string, value: unknown): unknown {
  return redactedMap({ [name]: value })[name];
}
