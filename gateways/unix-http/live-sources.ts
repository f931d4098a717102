/** Owns the turn from a handler's source to what a stream reads. */
import type { FrameReader } from "../../actors/job/messages.ts";
import type { StreamSource } from "../../actors/machine/handlers.ts";
import { FollowedFrames, WatchedFrames } from "./live-frames.ts";

/** `resumed`: the request names a last event. */
export function readerOf(
  source: StreamSource,
  { resumed }: { readonly resumed: boolean },
): FrameReader<unknown> {
  switch (source.kind) {
    case "frames":
      return source.reader;
    case "watch":
      return new WatchedFrames<object>({ watch: source.watch, resumed });
    case "follow": {
      const { lines, end } = source;
      const frames = new FollowedFrames({
        follow: () => lines,
        resumed,
        weightOf: ({ line }) => line.length,
      });
      return {
        next: () => frames.next(),
        close: () => {
          frames.close();
          end();
        },
      };
    }
  }
}
