/** An answer with another status than the operation's usual one, or with headers. */
export class Reply<T> {
  readonly body: T;
  readonly status: number;
  readonly headers: Record<string, string>;

  constructor(body: T, status: number, headers: Record<string, string> = {}) {
    this.body = body;
    this.status = status;
    this.headers = headers;
  }
}

/** An answer that is JSON text already: the lease protocol's, whose programs are not worth reading on the way. */
export class JsonText {
  readonly json: string;

  constructor(json: string) {
    this.json = json;
  }
}
