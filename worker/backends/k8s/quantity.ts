const FACTORS: Record<string, number> = {
  "": 1,
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** The number behind a quantity of the API, such as 1930m, 16384256Ki or 1e3; 0 when it is none. */
export function quantityOf(text: string | number | undefined): number {
  if (typeof text === "number") return text;
  const match = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?$/.exec(text ?? "");
  const value = Number(match?.[1]) * (FACTORS[match?.[2] ?? ""] ?? 1);
  return Number.isFinite(value) ? value : 0;
}
