import { createContext, useContext } from "react";
import type { Client } from "../../contracts/client.ts";
import { OPERATIONS, type OperationName } from "../../contracts/operations/index.ts";
import type { Operation, OutputOf } from "../../contracts/operations/operation.ts";
import { may } from "../../contracts/roles.ts";

export type Me = OutputOf<(typeof OPERATIONS)["get_me"]>;

export interface Session {
  client: Client;
  workspace: string;
  me: Me;
}

export const SessionContext = createContext<Session | null>(null);

/** Who is signed in, where they act, and the client that acts for them. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("no session above this component");
  return session;
}

/** Whether the API would let this person do an operation: from the operation table, so that the two cannot differ. */
export function mayDo(me: Pick<Me, "role" | "scope" | "operator">, name: OperationName): boolean {
  const { action } = OPERATIONS[name] as unknown as Operation;
  return may(action, me.role, me.scope, me.operator);
}

/** A button that would answer 403 is not shown. */
export function useMay(): (name: OperationName) => boolean {
  const { me } = useSession();
  return (name) => mayDo(me, name);
}
