// Another authorization server for MCP endpoints: `node authorization-server.mjs PORT RESOURCE...`.
// Clients register themselves (RFC 7591), name the resource that a token is for (RFC 8707), and get
// JWT access tokens (RFC 9068) with it as their audience. It takes every name with any password.
import { generateKeyPairSync } from "node:crypto";
import { Provider, errors } from "oidc-provider";

const SCOPES = ["tools:list", "tools:call", "tools:write", "prompts", "resources"];
const [port, ...resources] = process.argv.slice(2);
const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [],
  jwks: { keys: [{ ...key, use: "sig", alg: "RS256", kid: "signing" }] },
  cookies: { keys: [crypto.randomUUID()] },
  pkce: { required: () => true },
  scopes: ["openid", "offline_access", ...SCOPES],
  findAccount: async (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  extraTokenClaims: async () => ({ groups: ["staff"] }),
  clientDefaults: {
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  // A refresh token also for clients that do not ask for `offline_access`, as many servers do.
  issueRefreshToken: async (_, client) => client.grantTypeAllowed("refresh_token"),
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo(_, resource) {
        if (!resources.includes(resource)) throw new errors.InvalidTarget();
        return {
          scope: SCOPES.join(" "),
          audience: resource,
          accessTokenFormat: "jwt",
          accessTokenTTL: 300,
          jwt: { sign: { alg: "RS256" } },
        };
      },
    },
  },
});
provider.on("server_error", (_, error) => console.error(error));
provider.listen(Number(port), "127.0.0.1");
