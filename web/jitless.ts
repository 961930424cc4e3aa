import * as z from "zod";

// The pages' policy allows no code from strings; zod would try, and the browser would report it.
z.config({ jitless: true });
