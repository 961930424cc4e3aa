import { servePage } from "./http/pages.ts";

interface PagesEnv {
  ASSETS: Fetcher;
  /** The Worker of this deployment. */
  API: Fetcher;
}

/** The script of a Pages project: it serves the web build itself and hands everything else to the Worker. */
export default {
  async fetch(request: Request, env: PagesEnv): Promise<Response> {
    return (await servePage(env, request)) ?? env.API.fetch(request);
  },
};
