/**
 * What clones git sources unless a runtime names its own: alpine/git v2.49.1, pinned by the digest of its index, so that a
 * moved tag changes nothing.
 */
export const DEFAULT_GIT_IMAGE =
  "docker.io/alpine/git@sha256:c0280cf9572316299b08544065d3bf35db65043d5e3963982ec50647d2746e26";
