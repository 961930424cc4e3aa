let watched = false;

/** Standard output of a command that ends by itself: `everdict … | head` closes it early, which is no error. */
export function stdout(): NodeJS.WriteStream {
  if (!watched) {
    watched = true;
    process.stdout.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit(0);
      throw error;
    });
  }
  return process.stdout;
}
