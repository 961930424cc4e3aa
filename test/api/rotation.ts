const OLD = "dmF1bHQta2V5LWZvci10ZXN0cy1vbmx5LTMyLWJ5dGU=";
const NEW = "YW5vdGhlci12YXVsdC1rZXktZm9yLXRlc3RzLTMyLWI=";

/** Vault settings while a key is being replaced, and afterwards. */
export const rotationKeys = {
  both: JSON.stringify({ current: "k2", keys: { k1: OLD, k2: NEW } }),
  onlyNew: JSON.stringify({ current: "k2", keys: { k2: NEW } }),
};
