import { relayKills } from "./kills.ts";

relayKills(60, 5, 200_000);
