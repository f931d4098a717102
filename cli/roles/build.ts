/** Owns what this very build is: a checkout that runs its sources, or a package that runs compiled files. */
export const runtimeMode: "source-dev" | "release-runtime" = import.meta.url.endsWith(".ts")
  ? "source-dev"
  : "release-runtime";

/** What a user types for `lemon` here. */
export const LEMON = runtimeMode === "source-dev" ? "npm run --silent lemon --" : "lemon";
