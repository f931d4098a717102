/** Owns which methods a path is served with, for whoever came with another one (RFC 9110, 15.5.6). */
import type { RouteSpec } from "../../protocol/host-agent/route.ts";

export class AllowedMethods {
  readonly #places: readonly { readonly pattern: RegExp; readonly methods: readonly string[] }[];

  constructor(routes: readonly Pick<RouteSpec, "method" | "path">[]) {
    const byPath = Map.groupBy(routes, ({ path }) => path);
    this.#places = [...byPath].map(([path, group]) => ({
      pattern: new RegExp(`^${path.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "[^/]+")}$`),
      methods: group.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method])),
    }));
  }

  /** As the `Allow` header has it; null for a path that is not served at all. */
  at(url: string): string | null {
    const path = url.split("?", 1)[0] ?? "";
    const methods = this.#places.flatMap((place) =>
      place.pattern.test(path) ? place.methods : [],
    );
    return methods.length === 0 ? null : [...new Set(methods)].sort().join(", ");
  }
}
