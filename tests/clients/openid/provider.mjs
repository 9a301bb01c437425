// A certified OpenID provider on this host. Its argument is an object in JSON: port, redirect (the redirect URI of
// Tocsin), client_id, client_secret, and people: the claims of each person by the name with which it signs in.
// NODE_MODULES is the folder of its packages. It prints "ready" when it listens.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.NODE_MODULES}/`);
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const given = JSON.parse(process.argv[2]);

const provider = new Provider(`http://127.0.0.1:${given.port}`, {
  clients: [
    {
      client_id: given.client_id,
      client_secret: given.client_secret,
      redirect_uris: [given.redirect],
      grant_types: ["authorization_code"],
      response_types: ["code"],
    },
  ],
  claims: {
    openid: ["sub"],
    email: ["email", "email_verified"],
    profile: ["name"],
    groups: ["groups"],
  },
  findAccount: (_, sub) => given.people[sub] && { accountId: sub, claims: () => ({ sub, ...given.people[sub] }) },
  // Pages for sign-in and consent, which accept any password.
  features: { devInteractions: { enabled: true } },
  pkce: { required: () => true },
  cookies: { keys: ["a key of the tests"] },
});

provider.listen(given.port, "127.0.0.1", () => console.log("ready"));
