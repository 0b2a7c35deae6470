// The page as a file: its data is all in it.

render(JSON.parse(document.getElementById("data").textContent));
