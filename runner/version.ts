/** Version of this CLI, sent with each lease and as User-Agent. */
export const RUNNER_VERSION = "0.1.0";
