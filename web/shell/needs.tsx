import type { ReactNode } from "react";
import { OPERATIONS, type OperationName } from "../../contracts/operations/index.ts";
import type { Operation } from "../../contracts/operations/operation.ts";
import { ACTIONS, ROLES } from "../../contracts/roles.ts";
import { mayDo, useSession } from "../api/session.ts";
import { type Crumb, Page } from "../ui/layout.tsx";
import { Empty } from "../ui/states.tsx";

/**
 * A page that is one form. Whoever may not send it is told who may; the form, and what it would ask the API, is not
 * there, however one came to its address.
 */
export function Needs({
  op,
  what,
  title,
  crumbs,
  children,
}: {
  op: OperationName;
  /** What is done here: "Adding a dataset". */
  what: string;
  title: string;
  crumbs: Crumb[];
  children: ReactNode;
}) {
  const { me } = useSession();
  if (mayDo(me, op)) return children;
  const { action } = OPERATIONS[op] as unknown as Operation;
  const least = ACTIONS[action];
  const roleLacks = ROLES.indexOf(me.role) < ROLES.indexOf(least.role);
  return (
    <Page title={title} crumbs={crumbs}>
      {roleLacks ? (
        <Empty title={`${what} is for ${least.role}s`}>
          You are a {me.role} of this workspace. Ask an admin for the role, or somebody who has it to do this.
        </Empty>
      ) : (
        <Empty title={`${what} needs a key that may ${least.scope}`}>
          The key you signed in with has the scope {me.scope}. Sign in with one of scope {least.scope} to do this.
        </Empty>
      )}
    </Page>
  );
}
