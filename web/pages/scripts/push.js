// The service worker of Tocsin: it shows the notifications that a push service delivers.

const BUTTONS = {acknowledge: "acknowledge", resolve: "resolve"};

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  const message = event.data.json();
  event.waitUntil(show(message.title, message.body, message));
});

self.addEventListener("notificationclick", (event) => {
  const message = event.notification.data;
  event.notification.close();
  event.waitUntil(event.action in BUTTONS ? act(message, event.action) : open(message));
});

// Notifications with the same tag replace each other, without a second sound.
function show(title, body, message) {
  return self.registration.showNotification(title, {
    body,
    tag: message.id,
    data: message,
    actions: message.actions,
    requireInteraction: message.is_urgent,
  });
}

async function act(message, action) {
  const path = `callbacks/web_push/${message.token}/${BUTTONS[action]}/`;
  let text = "Tocsin did not answer. Open the incident.";
  try {
    const answer = await fetch(new URL(path, self.registration.scope), {method: "POST"});
    text = (await answer.text()).trim();
  } catch {
    // Without a network, the sentence above says what to do.
  }
  await show(text, message.title, {...message, actions: [], is_urgent: false});
}

function open(message) {
  return message.url ? self.clients.openWindow(message.url) : Promise.resolve();
}
