/**
 * Owns a brain in a process of its own, so that it can be killed: a reconciler whose host is its parent, asked
 * over IPC. Its first message says what it is to do with the database.
 */
import { failureOf, Reconciler, type SettingKey } from "../../client/reconciler/index.ts";

interface Order {
  readonly path: string;
  /** A setting to change after the first pass; else only the pass. */
  readonly set?: { readonly key: SettingKey; readonly value: never };
  /** A job to ask for after the first pass. */
  readonly begin?: true;
}

let serial = 0;
interface Waiting {
  readonly resolve: (answer: never) => void;
  readonly reject: (failure: object) => void;
}

const waiting = new Map<number, Waiting>();

process.on("message", (message: Order | { id: number; answer?: never; failure?: object }) => {
  if ("path" in message) void act(message);
  else if (message.failure === undefined) waiting.get(message.id)?.resolve(message.answer as never);
  else waiting.get(message.id)?.reject(message.failure);
});

async function act({ path, set, begin }: Order): Promise<void> {
  const reconciler = new Reconciler({
    path,
    host: {
      async call(route, ...[input]) {
        serial += 1;
        const answer = Promise.withResolvers<never>();
        waiting.set(serial, answer);
        process.send?.({ id: serial, route, input: input ?? {} });
        return await answer.promise;
      },
    },
  });
  try {
    let report: unknown = await reconciler.pass();
    if (set !== undefined) report = await reconciler.set(set.key, set.value);
    if (begin) report = await reconciler.begin("systemUpdate", {});
    process.send?.({ report });
  } catch (failure) {
    process.send?.({ failed: failureOf(failure).code });
  }
  await reconciler.close();
  process.disconnect();
}
