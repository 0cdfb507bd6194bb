// An OpenID provider at which people sign in: `node openid-provider.mjs PORT REDIRECT_URI`.
// It takes every name with any password; CLIENT_SECRET is the secret of its one client, `douane`.
// Whoever it knows is in the group `staff`; a name that begins with `sec-` is also in `secops`.
import { generateKeyPairSync } from "node:crypto";
import { Provider } from "oidc-provider";

const [port, redirectUri] = process.argv.slice(2);
const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "douane",
      client_secret: process.env.CLIENT_SECRET,
      redirect_uris: [redirectUri],
      grant_types: ["authorization_code"],
      response_types: ["code"],
      token_endpoint_auth_method: "client_secret_basic",
    },
  ],
  jwks: { keys: [{ ...key, use: "sig", alg: "RS256", kid: "signing" }] },
  cookies: { keys: [crypto.randomUUID()] },
  pkce: { required: () => true },
  claims: { openid: ["sub"], profile: ["name", "groups"], email: ["email", "email_verified"] },
  // Claims of the scopes stand in the ID token, as most providers have it.
  conformIdTokenClaims: false,
  findAccount: async (_, id) => ({
    accountId: id,
    claims: async () => ({
      sub: id,
      name: `Person ${id}`,
      email: `${id}@example.com`,
      email_verified: true,
      groups: id.startsWith("sec-") ? ["staff", "secops"] : ["staff"],
    }),
  }),
  features: { devInteractions: { enabled: true } },
});
provider.on("server_error", (_, error) => console.error(error));
provider.listen(Number(port), "127.0.0.1");
