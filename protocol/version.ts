/** Owns the one CalVer string that every role shows (`lemonVersion`, `server.version`, `lemon version`). */
import manifest from "../package.json" with { type: "json" };

export const LEMON_VERSION: string = manifest.version;

/** Version of the `/ws` protocol in `hello-ok`. */
export const PROTOCOL_VERSION = 1;
