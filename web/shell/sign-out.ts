import { useQuery } from "@tanstack/react-query";
import { clientFor } from "../api/client.ts";
import { remember } from "../api/stored.ts";
import { notifyError } from "../ui/notify.ts";

async function signOut(): Promise<void> {
  try {
    await clientFor(undefined).call("end_session", {});
  } catch (error) {
    notifyError(error);
    return;
  }
  remember("workspace", null);
  window.location.assign("/dashboard/sign-in");
}

/** Ends the session; null while nobody signed in, as on a development server. */
export function useSignOut(): (() => Promise<void>) | null {
  const { data } = useQuery({
    queryKey: ["session"],
    queryFn: ({ signal }) => clientFor(undefined).call("get_session", { signal }),
  });
  return data?.session && data.session.method !== "dev" ? signOut : null;
}
