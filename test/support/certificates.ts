import "@abraham/reflection";
import * as x509 from "@peculiar/x509";

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const DAY_MS = 86_400_000;

export interface Issued {
  /** PEM. */
  cert: string;
  key: string;
}

/** A private certificate authority for one test. */
export interface Authority {
  /** PEM. */
  ca: string;
  /** A certificate for a server at 127.0.0.1 and the given names. */
  server(...names: string[]): Promise<Issued>;
  /** A certificate for a name and no address. */
  named(name: string): Promise<Issued>;
  /** A client certificate for a user. */
  client(user: string): Promise<Issued>;
}

async function keyPair(): Promise<CryptoKeyPair> {
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
  if (!("privateKey" in keys)) throw new Error("no key pair");
  return keys;
}

async function pem(key: CryptoKey): Promise<string> {
  const bytes = await crypto.subtle.exportKey("pkcs8", key);
  if (!(bytes instanceof ArrayBuffer)) throw new Error("no key in bytes");
  return x509.PemConverter.encode(bytes, "PRIVATE KEY");
}

/** Makes an authority of its own. */
export async function certificateAuthority(name = "test-ca"): Promise<Authority> {
  const keys = await keyPair();
  const notBefore = new Date(Date.now() - DAY_MS);
  const notAfter = new Date(Date.now() + 30 * DAY_MS);
  let serial = 1;
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: "01",
    name: `CN=${name}`,
    notBefore,
    notAfter,
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
    ],
  });
  const issue = async (subject: string, extensions: x509.Extension[]): Promise<Issued> => {
    const own = await keyPair();
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: (++serial).toString(16).padStart(2, "0"),
      subject,
      issuer: root.subject,
      notBefore,
      notAfter,
      publicKey: own.publicKey,
      signingKey: keys.privateKey,
      signingAlgorithm: ALGORITHM,
      extensions,
    });
    return { cert: certificate.toString("pem"), key: await pem(own.privateKey) };
  };
  return {
    ca: root.toString("pem"),
    server: (...names) =>
      issue("CN=server", [
        new x509.SubjectAlternativeNameExtension([
          { type: "ip", value: "127.0.0.1" },
          ...["localhost", ...names].map((value) => ({ type: "dns" as const, value })),
        ]),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      ]),
    named: (server) =>
      issue("CN=server", [
        new x509.SubjectAlternativeNameExtension([{ type: "dns", value: server }]),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      ]),
    client: (user) => issue(`CN=${user}`, [new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth])]),
  };
}
