/** Owns the one CalVer string that every role shows (`lemonVersion`, `server.version`, `lemon version`). */
import manifest from "../package.json" with { type: "json" };

export const LEMON_VERSION: string = manifest.version;
